// One text of what is open: its blocks, and marks for the passages of this pair or query alone.

class Pane {
  /**
   * @param {Element} element - the pane.
   * @param {number} number - of the text.
   * @param {number[][]} passages - begin and end of each passage in this text, in UTF-16 units.
   * @param {number[][]} equal - the same of the stretches of equal words of each passage, one after the other.
   * @param {Reader|Sheet} reader - names and styles the passages.
   */
  constructor(element, number, passages, equal, reader = opened) {
    this.reader = reader;
    this.element = element;
    this.passages = passages;
    this.equal = equal;
    const article = find(`#text-${number}`).cloneNode(true);
    article.removeAttribute("id");
    element.replaceChildren(...article.children);
    let at = 0;
    this.out = []; // what does not count: begin, end and reason
    this.blocks = findAll(".text > p", element).map((p) => {
      const block = { p, begin: at, text: p.textContent, ranges: [] };
      let begin = at;
      for (const node of p.childNodes) {
        const end = begin + node.textContent.length;
        if (node.matches?.("span.out")) this.out.push({ begin, end, reason: node.title });
        begin = end;
      }
      block.end = at += block.text.length;
      return block;
    });
    this.length = at;
  }

  /** Fill every block with its text and the marks of the passages that are not left out. */
  mark(excluded) {
    this.cuts = cutPassages(this.passages, excluded, this.out, this.reader.uncounted);
    this.firsts = new Map(); // the first cut of each passage
    for (const cut of this.cuts) for (const n of cut.numbers) if (!this.firsts.has(n)) this.firsts.set(n, cut.begin);
    const kept = this.equal.filter((_, i) => !excluded.has(i + 1)).flatMap(pairUp);
    this.spans = kept.map(([begin, end]) => [begin, end, "equal"]).sort(([a], [b]) => a - b);
    for (const block of this.blocks) this.fill(block);
  }

  /** Fill a block with its text, marks, and spans ``[begin, end, class]``, of equal words unless others are given. */
  fill(block, spans = this.spans.filter(([begin, end]) => begin < block.end && end > block.begin)) {
    const cuts = this.cuts.filter((cut) => cut.begin < block.end && cut.end > block.begin);
    const parts = [];
    let at = block.begin;
    for (const cut of cuts) {
      const begin = Math.max(cut.begin, block.begin), end = Math.min(cut.end, block.end);
      parts.push(...this.cutSpans(block, at, begin, spans));
      parts.push(this.makeMark(cut, begin, this.cutSpans(block, begin, end, spans)));
      at = end;
    }
    parts.push(...this.cutSpans(block, at, block.end, spans));
    block.p.replaceChildren(...parts);
  }

  cutSpans(block, begin, end, spans) {
    const text = (from, to) => document.createTextNode(block.text.slice(from - block.begin, to - block.begin));
    const parts = [];
    for (const [first, last, name] of spans) {
      const from = Math.max(first, begin), to = Math.min(last, end);
      if (from >= to) continue;
      if (begin < from) parts.push(text(begin, from));
      parts.push(makeElement("span", name, text(from, to)));
      begin = to;
    }
    if (begin < end) parts.push(text(begin, end));
    return parts;
  }

  makeMark(cut, begin, content) {
    const [number] = cut.numbers;
    if (!number) return makeOut(cut.reason, content);
    const link = document.createElement("a"), mark = makeElement("mark", this.reader.findStyle(number), link);
    mark.dataset.numbers = cut.numbers.join(" ");
    link.href = `#${this.reader.id}-${number}`;
    link.dataset.number = number;
    link.draggable = false;
    link.append(...content);
    mark.classList.toggle("chosen", cut.numbers.includes(this.chosen));
    const starting = cut.numbers.filter((n) => this.firsts.get(n) === begin);
    const labels = new Set(starting.map((n) => this.reader.findLabel(n)));
    if (labels.size) mark.dataset.label = [...labels].join(" ");
    else link.tabIndex = -1; // one stop of the Tab key a passage
    return mark;
  }

  /** Return the node and offset of a place in the text. */
  locate(place) {
    const block = this.findBlock(place);
    const walker = document.createTreeWalker(block.p, NodeFilter.SHOW_TEXT);
    let rest = place - block.begin;
    while (walker.nextNode()) {
      if (rest <= walker.currentNode.length) return [walker.currentNode, rest];
      rest -= walker.currentNode.length;
    }
    return [block.p, 0];
  }

  findBlock(place) {
    let low = 0, high = this.blocks.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.blocks[middle].end > place) high = middle;
      else low = middle + 1;
    }
    return this.blocks[low];
  }

  /** Return the place in the text of a node and offset; null outside of the text. */
  findPlace(node, offset) {
    const block = this.blocks.find(({ p }) => p.contains(node));
    if (!block || node.nodeType !== Node.TEXT_NODE) return null;
    const walker = document.createTreeWalker(block.p, NodeFilter.SHOW_TEXT);
    let place = block.begin;
    while (walker.nextNode() && walker.currentNode !== node) place += walker.currentNode.length;
    return place + offset;
  }

  /** Scroll so that a place stands ``top`` pixels below the upper edge; blocks above may get their size only now. */
  scrollTo(place, top, times = 4) {
    const [node, offset] = this.locate(place);
    const range = new Range();
    range.setStart(node, offset);
    range.setEnd(node, Math.min(offset + 1, node.length ?? 0));
    const box = range.getClientRects()[0] ?? this.findBlock(place).p.getBoundingClientRect();
    const move = box.top - this.element.getBoundingClientRect().top - top;
    this.element.scrollTop += move;
    if (times > 1 && Math.abs(move) > 1) requestAnimationFrame(() => this.scrollTo(place, top, times - 1));
  }

  choose(number) {
    this.chosen = number;
    for (const mark of findAll("mark", this.element))
      mark.classList.toggle("chosen", mark.dataset.numbers.split(" ").includes(String(number)));
  }
}

const pairUp = (places) => places.flatMap((begin, i) => (i % 2 ? [] : [[begin, places[i + 1]]]));

function makeOut(reason, content) {
  const span = makeElement("span", "out", ...content);
  span.title = reason;
  return span;
}

/** Cut passages and what does not count into stretches without overlap, each with the numbers of its passages. */
function cutPassages(passages, excluded, out, uncounted) {
  const shown = passages.map(([begin, end], i) => ({ begin, end, number: i + 1 }));
  const kept = shown.filter(({ begin, end, number }) => begin < end && !excluded.has(number));
  const places = [...new Set([...kept, ...out].flatMap(({ begin, end }) => [begin, end]))].sort((a, b) => a - b);
  const cuts = [];
  for (let i = 0; i + 1 < places.length; i++) {
    const isHere = ({ begin, end }) => begin <= places[i] && end > places[i];
    const left = out.find(isHere);
    const here = kept.filter(isHere).map((p) => p.number).filter((n) => !left || uncounted.has(n));
    const numbers = here.sort((a, b) => uncounted.has(a) - uncounted.has(b));
    if (numbers.length || left) cuts.push({ begin: places[i], end: places[i + 1], numbers, reason: left?.reason });
  }
  return cuts;
}
