// The page of source retrieval: a query beside the source that explains the chosen passage.

class QueryReader extends Reader {
  constructor(section) {
    super(section);
    this.source = this.data.passages[0]?.[4]; // place of its text among those of the query
  }

  open() {
    super.open();
    for (const pane of this.panes) pane.mark(this.excluded);
    if (this.panes.length) this.startGains(find(".slot", this.section));
  }

  /** Passages have one place in the query, and one in their own source. */
  makePane(element, side) {
    if (side === 0) return super.makePane(element, side);
    const spans = this.data.passages.map(([, , begin, end, source]) => (source === this.source ? [begin, end] : [0, 0]));
    return new Pane(element, this.data.texts[this.source], spans, []);
  }

  select(number, clicked = null) {
    const source = this.data.passages[number - 1][4];
    if (source !== this.source) {
      this.source = source;
      this.panes[1] = this.makePane(this.panes[1].element, 1);
      this.panes[1].mark(this.excluded);
    }
    super.select(number, clicked);
  }

  choose(number) {
    super.choose(number);
    const rank = this.findLabel(number);
    for (const row of findAll(".ranked tr[data-rank]", this.section)) {
      row.classList.toggle("chosen", Number(row.dataset.rank) === rank);
      if (Number(row.dataset.rank) === rank) showRow(row);
    }
  }

  /** Colours and labels are those of sources. */
  findStyle(number) {
    return `c${(this.findLabel(number) - 1) % 8}`;
  }

  findLabel(number) {
    return this.data.passages[number - 1]?.[5];
  }
}

/** Scroll a list, and not the page, so that a row is in sight below the head. */
function showRow(row) {
  const list = row.closest(".ranked"), head = find("thead", list).offsetHeight;
  const above = row.offsetTop - head - list.scrollTop;
  const below = row.offsetTop + row.offsetHeight - list.scrollTop - list.clientHeight;
  if (above < 0) list.scrollTop += above;
  else if (below > 0) list.scrollTop += below;
}

const makeReader = (section) => new QueryReader(section);
const listShown = () => findAll("section.pair").map((section) => section.id);

addEventListener("DOMContentLoaded", () => {
  levels = JSON.parse(find("#levels").textContent);
  find("#print").addEventListener("click", () => print());
  find("#help-button").addEventListener("click", () => find("#help").showModal());
  startReading(listShown().length);
});
