// A figure that is a file leads to that file, at its full size.
for (const image of document.querySelectorAll('article img:not([src^="data:"])')) {
  const link = document.createElement("a");
  link.href = image.src;
  image.replaceWith(link);
  link.append(image);
}
