// What the search reads of its field; the field keeps what was typed. The search itself takes a word
// that begins with a hyphen for one that no page may have, and finds pages with any of the words.
// An option (--skip-bad) or a name with dots (merge.target_size) is neither: hyphens in front are
// left out, and all of its words have to be there. They are divided as by the separator of mkdocs.yml.
{
  const joined = (word) => {
    const parts = word.replace(/^--+/, "").split(/-+|\.(?!\d)/).filter(Boolean);
    return parts.length > 1 ? parts.map((part) => `+${part}*`).join(" ") : parts.join("");
  };
  const read = (text) => text.replace(/(?<!\S)(?:--+)?\w+(?:[.-]\w+)*(?!\S)/g, joined);
  const field = document.querySelector("input.md-search__input");
  if (field) {
    const value = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
    Object.defineProperty(field, "value", {
      ...value,
      get() {
        return read(value.get.call(this));
      },
    });
  }
}
