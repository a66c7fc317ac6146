"""Four public records in time order.

bike-hours.csv.gz (UCI Bike Sharing, hourly), beijing-pm25.csv.gz (UCI Beijing PM2.5),
transformer-oil.csv.gz (ETTh1) and room-occupancy.csv.gz (UCI Occupancy Detection).
"""

import csv
import gzip

import numpy as np

# Target, hour of a row, and the numeric columns that do not give the target away.
RECORDS = {
    "transformer-oil": ("OT", lambda row: int(row["date"][11:13]), "HUFL HULL MUFL MULL LUFL LULL"),
    "bike-hours": (
        "cnt",
        lambda row: int(row["hr"]),
        "season yr mnth holiday weekday workingday weathersit temp atemp hum windspeed",
    ),
    "beijing-pm25": ("pm2.5", lambda row: int(row["hour"]), "year month DEWP TEMP PRES Iws Is Ir"),
    "room-occupancy": (
        "Occupancy",
        lambda row: int(row["date"][11:13]),
        "Temperature Humidity CO2 HumidityRatio",
    ),
}


def record(path):
    """Return complete rows, with one column per hour of the day, and their targets."""
    target, hour, columns = RECORDS[path.name.partition(".")[0]]
    wanted = [*columns.split(), target]
    rows, hours = [], []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = csv.reader(file)
        head = next(lines)
        for cells in lines:
            row = dict(zip(head, cells[-len(head) :], strict=True))  # row names have no header
            if all(row[name] not in ("", "NA") for name in wanted):
                rows.append([float(row[name]) for name in wanted])
                hours.append(hour(row))
    table = np.array(rows)
    return np.hstack([table[:, :-1], np.eye(24)[hours]]), table[:, -1]
