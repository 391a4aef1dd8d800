// Names are hidden by numbers, in the page, in its warnings, and so in a saved copy.

let title = "";
const shownNames = new Map(); // names by the number of their text; empty in a copy without names
const original = new Map(); // texts of elements that may quote a name
const FILES = [ // what is said of files that are no texts, and have no number
  [/^Not read: .*/s, "A file was not read."], [/^(Skipped \d+ unsupported files?): .*/s, "$1."], [/, first at .*/s, ""],
];

function loadNames() {
  title = find("#title").textContent;
  if (state.anonymous) return;
  for (const element of findAll("bdi[data-text]")) shownNames.set(element.dataset.text, element.textContent);
  for (const element of findAll(".may-name")) original.set(element, element.innerHTML);
}

function hideNames(hide) {
  state.anonymous = hide;
  for (const element of findAll("bdi[data-text]"))
    element.textContent = hide ? `Text ${element.dataset.text}` : shownNames.get(element.dataset.text);
  find("#title").textContent = document.title = hide ? "Report" : title;
  const pattern = makePattern();
  for (const element of findAll(".may-name")) {
    if (!hide) element.innerHTML = original.get(element);
    else {
      replaceNames(element, pattern);
      if (element.closest("#overview .warnings"))
        element.textContent = FILES.reduce((text, [names, without]) => text.replace(names, without), element.textContent);
    }
  }
}

/** A pattern for all names, the longest first; a name within a longer word is none. */
function makePattern() {
  const names = [...new Set(shownNames.values())].filter(Boolean).sort((a, b) => b.length - a.length);
  if (!names.length) return null;
  const escaped = names.map((name) => name.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"));
  return new RegExp(`(?<![\\p{L}\\p{N}])(?:${escaped.join("|")})(?![\\p{L}\\p{N}])`, "gu");
}

function replaceNames(element, pattern) {
  if (!pattern) return;
  const numbers = new Map([...shownNames].map(([number, name]) => [name, number]));
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (walker.nextNode())
    walker.currentNode.data = walker.currentNode.data.replace(pattern, (name) => `Text ${numbers.get(name)}`);
}
