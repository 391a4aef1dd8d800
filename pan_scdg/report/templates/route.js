// Open what the address names: #overview, #pair-3, or #pair-3-2 for the second passage of the third pair.

function route() {
  const [, id, passage] = location.hash.match(/^#((?:pair|query)-\d+)(?:-(\d+))?$/) ?? [];
  const section = id && find(`#${id}`);
  const changes = section !== opened?.section;
  if (changes) {
    opened?.close();
    opened = section ? makeReader(section) : null;
    document.documentElement.classList.toggle("viewing", opened !== null);
    opened?.open();
    scrollTo(0, 0);
  }
  if (opened && Number(passage) <= opened.data.passages.length) opened.select(Number(passage));
  else if (opened && changes) opened.step(1);
}

/** Open the pair or query before or after this one, in the order of the table. */
function openNext(by) {
  const ids = listShown();
  const next = ids[ids.indexOf(opened.section.id) + by];
  if (next) location.hash = `#${next}`;
}

function followClick(event) {
  const link = event.target.closest("a[data-number]");
  const band = event.target.closest(".band");
  const ground = event.target.closest(".ground, .profile, .profile-ground");
  if (link && opened) {
    event.preventDefault();
    if (event.detail && getSelection().toString()) return; // the mouse selects text
    opened.select(Number(link.dataset.number), link.closest(".pane") ? link : null);
    find(".panes", opened.section).scrollIntoView({ block: "nearest" });
  } else if (band && opened) opened.select(Number(band.dataset.number));
  else if (ground && opened) {
    const box = ground.closest("svg").querySelector(".ground, .profile-ground").getBoundingClientRect();
    const pane = opened.panes[ground.dataset.side ?? 0];
    const share = Math.min(0.9999, Math.max(0, (event.clientX - box.left) / box.width));
    if (pane.length) pane.scrollTo(Math.floor(share * pane.length), 60);
  }
}

const KEYS = {
  n: () => opened?.step(1),
  p: () => opened?.step(-1),
  "]": () => opened && openNext(1),
  "[": () => opened && openNext(-1),
  1: () => opened?.showLevel?.("passage"),
  2: () => opened?.showLevel?.("sentence"),
  3: () => opened?.showLevel?.("token"),
  Escape: () => opened && (location.hash = "#overview"),
  "?": () => find("#help").showModal(),
};

function followKey(event) {
  // A closed dialog's button keeps the focus for a moment.
  const typing = event.target.closest("input:not([type=radio], [type=checkbox]), select, textarea, dialog[open]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  KEYS[event.key]();
  event.preventDefault();
}

/** Follow the address, clicks and keys; if there is nothing to choose from, the only row of the table is opened. */
function startReading(rows) {
  document.addEventListener("click", followClick);
  document.addEventListener("keydown", followKey);
  addEventListener("hashchange", route);
  const only = find(".pair");
  if (!location.hash && rows === 1 && only) history.replaceState(null, "", `#${only.id}`); // without scrolling to it
  route();
}
