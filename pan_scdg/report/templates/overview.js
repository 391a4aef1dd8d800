// The tables of texts and pairs: sort, filter, marks, and numbers that follow the filters.

const ORDER = ["likely", "unclear", "no sign"];
const rowsByNumber = new Map(); // of pairs

function startOverview() {
  for (const row of listRows()) {
    rowsByNumber.set(row.dataset.number, row);
    find(".review", row).append(makeReview(row.dataset.number));
  }
  for (const header of findAll(".list th[data-key]")) {
    // not a button: on paper browsers leave those out of a header that is repeated
    const button = document.createElement("span");
    button.setAttribute("role", "button");
    button.tabIndex = 0;
    button.append(...header.childNodes);
    header.append(button);
    header.addEventListener("click", () => sortRows(header));
    button.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sortRows(header);
    });
  }
  find("#search").addEventListener("input", filterRows);
  find("#search").addEventListener("submit", (event) => event.preventDefault());
  filterRows();
  recount();
}

const listRows = () => findAll(".pairs tbody tr");
const listTexts = () => findAll(".texts tbody tr");

/** The pairs of a text with a sign of reuse: their rows, and on which side the text is. */
const listSigns = (text) =>
  text.dataset.pairs.split(" ").filter(Boolean).map((entry) => {
    const [number, side] = entry.split(":");
    return { number, side: Number(side), row: rowsByNumber.get(number) };
  });

function readKey(row, key) {
  switch (key) {
    case "number": case "rank": return Number(row.dataset[key]);
    case "score": return row.dataset.score === "" ? -Infinity : Number(row.dataset.score);
    case "decision": return ORDER.indexOf(row.dataset.decision);
    case "passages": return listPassages(row).filter((passage) => !passage.excluded).length;
    case "share": return measureShare(row);
    case "sources": return listSigns(row).length;
    case "review": return state.reviews[row.dataset.number] || "–";
    default: return find(`.${key}`, row).textContent;
  }
}

function sortRows(header) {
  const key = header.dataset.key, table = header.closest("table");
  const before = header.getAttribute("aria-sort");
  const bestFirst = ["score", "passages", "share", "sources"].includes(key); // the first click shows the largest
  const descending = before ? before === "ascending" : bestFirst;
  for (const other of findAll("th[data-key]", table)) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const keyed = findAll("tbody tr", table).map((row) => [readKey(row, key), row]);
  const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true }));
  keyed.sort(([a], [b]) => (descending ? compare(b, a) : compare(a, b)));
  find("tbody", table).append(...keyed.map(([, row]) => row));
}

/** A name without accents and capitals. */
const foldName = (name) => name.normalize("NFD").replace(/\p{M}/gu, "").toLocaleLowerCase();
const readName = () => foldName(find("#search").elements.name.value);
const hasName = (element, name) => foldName(element.textContent).includes(name);

function filterRows() {
  const form = find("#search").elements;
  const name = readName();
  const decisions = form.decision.value.split(",").filter(Boolean);
  const matches = (row, numbers) =>
    (!name || findAll("bdi", row).some((element) => hasName(element, name))) &&
    (!decisions.length || decisions.includes(row.dataset.decision)) &&
    (!form.review.value || numbers.some((number) => (state.reviews[number] || "none") === form.review.value));
  for (const row of listRows()) row.hidden = !matches(row, [row.dataset.number]);
  for (const text of listTexts()) text.hidden = !matches(text, listSigns(text).map(({ number }) => number));
  const count = (rows, things) => `${rows.filter((row) => !row.hidden).length} of ${rows.length} ${things}`;
  const pairs = find(".pairs").dataset.more ? "pairs of the table" : "pairs";
  find("#shown").textContent = `${count(listTexts(), "texts")}, ${count(listRows(), pairs)}`;
  find("#none-shown").hidden = listTexts().some((text) => !text.hidden);
}

/** The share of a text, or of the suspicious text of a pair, in passages that count and are not left out. */
function measureShare(row) {
  const signs = row.dataset.pairs === undefined
    ? [{ row, side: 0 }] : listSigns(row).filter(({ number }) => state.reviews[number] !== "dismissed");
  return measureSigns(signs, row.dataset.length);
}

/** The share of a text of this length in the passages of pairs that count and are not left out. */
function measureSigns(signs, length) {
  const kept = signs.flatMap(({ row, side }) =>
    listPassages(row).filter((passage) => !passage.excluded).flatMap((passage) => passage.places[side]));
  let covered = 0, last = 0;
  for (const [begin, end] of kept.sort(([a], [b]) => a - b)) {
    covered += Math.max(0, end - Math.max(begin, last));
    last = Math.max(last, end);
  }
  return covered / Math.max(1, length);
}

const formatShare = (share) => `${Math.floor(100 * share + 0.5)} %`;

/** Show the points and the decision of a text's best pair that the reader has not dismissed. */
function showBest(text) {
  const signs = listSigns(text);
  if (!signs.length) return;
  const kept = signs.filter(({ number }) => state.reviews[number] !== "dismissed");
  const all = kept.length === signs.length;
  const byScore = (a, b) => readKey(b.row, "score") - readKey(a.row, "score");
  const best = all ? signs.find(({ row }) => row.dataset.score === text.dataset.score) : kept.sort(byScore)[0];
  const decision = all ? text.dataset.decision : best?.row.dataset.decision ?? "no sign";
  if (best || !all) find(".score", text).textContent = best ? find(".score", best.row).textContent : "–";
  const mark = find(`.meanings .decision[data-decision="${decision}"]`);
  if (mark) find(".decision", text).replaceWith(mark.cloneNode(true));
  find(".by-reader", text)?.remove();
  if (!all) find(".decision", text).after(makeElement("span", "by-reader", ` as dismissed by you: ${signs.length - kept.length}`));
}

/** Recount passages and shares after a change of filters or marks; scores and decisions of pairs stay as they are. */
function recount() {
  let all = 0, left = 0;
  for (const row of listRows()) {
    const passages = listPassages(row);
    const kept = passages.filter((passage) => !passage.excluded);
    all += passages.length;
    left += passages.length - kept.length;
    find(".passages", row).textContent = kept.length;
  }
  for (const row of [...listRows(), ...listTexts()])
    find(".share", row).textContent = formatShare(measureShare(row));
  listTexts().forEach(showBest);
  const note = find("#left-out");
  note.hidden = !left;
  note.textContent = `${left} of ${all} passages are left out as you chose. Scores of pairs do not change: to leave a passage out of ` +
    "them, save its text in a file and check again with --template.";
}
