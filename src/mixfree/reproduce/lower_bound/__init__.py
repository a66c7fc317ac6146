"""The lower bound of Duchi et al. (2012) as a problem, on which the rates of Table 1 separate."""
