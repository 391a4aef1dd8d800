// Gains of tokens, or their means over sentences, as eight levels of colour: no element per token.

const LEVELS = 8;
let levels; // for tokens and for sentences: {edges: least gain of each level but the first, legend: [...]}
const NEUTRAL = 2;
const supportsHighlights = typeof Highlight !== "undefined" && CSS.highlights !== undefined;

class Gains {
  constructor(data, pane) {
    this.pane = pane;
    this.units = { token: unpackTokens(data.gains), sentence: [] };
    this.units.sentence = averageSentences(this.units.token, data.sentences);
    this.level = "passage";
    this.highlights = [];
    for (let i = 0; supportsHighlights && i < LEVELS; i++) {
      this.highlights.push(new Highlight());
      CSS.highlights.set(`gain-${i}`, this.highlights[i]);
    }
    // Only blocks in sight are coloured: a long text has 100,000 tokens.
    this.observer = new IntersectionObserver((entries) => entries.forEach((entry) => this.see(entry)), {
      root: pane.element,
      rootMargin: "50% 0px",
    });
    this.blocks = new Map(pane.blocks.map((block) => [block.p, block]));
    this.seen = new Set();
    for (const block of pane.blocks) this.observer.observe(block.p);
  }

  close() {
    this.observer.disconnect();
    for (const highlight of this.highlights) highlight.clear();
    if (supportsHighlights) CSS.highlights.delete("current");
  }

  see(entry) {
    const block = this.blocks.get(entry.target);
    this.erase(block);
    if (entry.isIntersecting) {
      this.seen.add(block);
      this.paint(block);
    } else this.seen.delete(block);
  }

  show(level) {
    this.level = level;
    this.current = null;
    this.pane.element.classList.toggle("graded", level !== "passage");
    this.repaint();
  }

  repaint() {
    for (const block of this.seen) {
      this.erase(block);
      this.paint(block);
    }
    this.showCurrent();
  }

  erase(block) {
    if (supportsHighlights) for (const [level, range] of block.ranges) this.highlights[level].delete(range);
    else if (block.ranges.length) this.pane.fill(block);
    block.ranges = [];
  }

  paint(block) {
    if (this.level === "passage") return;
    const runs = this.listRuns(block.begin, block.end);
    // a token begins with the space before its word
    for (const run of runs) while (run[0] < run[1] - 1 && /\s/.test(block.text[run[0] - block.begin])) run[0]++;
    if (!supportsHighlights) {
      this.pane.fill(block, runs.map(([begin, end, level]) => [begin, end, `g${level}`]));
      block.ranges = runs;
      return;
    }
    const locate = makeLocator(block);
    for (const [begin, end, level] of runs) {
      const [startContainer, startOffset] = locate(begin, true), [endContainer, endOffset] = locate(end, false);
      const range = new StaticRange({ startContainer, startOffset, endContainer, endOffset });
      this.highlights[level].add(range);
      block.ranges.push([level, range]);
    }
  }

  /** Neighbours of one level are one run. */
  listRuns(begin, end) {
    const units = this.units[this.level], runs = [];
    for (let i = findUnit(units, begin); i < units.length && units[i].begin < end; i++) {
      const level = findLevel(units[i].gain, this.level);
      const first = Math.max(begin, units[i].begin), last = Math.min(end, units[i].end);
      if (level === NEUTRAL || first >= last) continue;
      const before = runs.at(-1);
      if (before && before[2] === level && first - before[1] <= 1) before[1] = last;
      else runs.push([first, last, level]);
    }
    return runs;
  }

  /** Return the token or sentence at an offset of the text, null without one. */
  find(place) {
    if (this.level === "passage" || place === null) return null;
    const unit = this.units[this.level][findUnit(this.units[this.level], place)];
    return unit && unit.begin <= place && place < unit.end ? unit : null;
  }

  /** Move the reading mark to the next unit, or the one before; it starts at the first one in sight. */
  step(by) {
    const units = this.units[this.level];
    if (!units?.length) return null;
    const first = [...this.seen].sort((a, b) => a.begin - b.begin)
      .find(({ p }) => p.getBoundingClientRect().bottom > this.pane.element.getBoundingClientRect().top + 40);
    const at = this.current ? units.indexOf(this.current) + by : findUnit(units, first?.begin ?? 0);
    this.current = units[Math.min(units.length - 1, Math.max(0, at))];
    this.showCurrent();
    const height = this.pane.element.clientHeight, [node, offset] = this.pane.locate(this.current.begin);
    const range = new Range();
    range.setStart(node, offset);
    const top = range.getBoundingClientRect().top - this.pane.element.getBoundingClientRect().top;
    if (top < 50 || top > height - 50) this.pane.scrollTo(this.current.begin, height / 3);
    return this.current;
  }

  showCurrent() {
    if (!supportsHighlights) return;
    CSS.highlights.delete("current");
    if (!this.current) return;
    const [startContainer, startOffset] = this.pane.locate(this.current.begin);
    const [endContainer, endOffset] = this.pane.locate(this.current.end);
    CSS.highlights.set("current", new Highlight(new StaticRange({ startContainer, startOffset, endContainer, endOffset })));
  }
}

/** Unpack distance to the token before, length, and gain in hundredths of a nat. */
function unpackTokens(packed) {
  const tokens = [];
  let at = 0;
  for (let i = 0; i < packed.length; i += 3) {
    const begin = at + packed[i];
    at = begin + packed[i + 1];
    tokens.push({ begin, end: at, gain: packed[i + 2] / 100, tokens: 1 });
  }
  return tokens;
}

function averageSentences(tokens, ends) {
  const sentences = [];
  let i = 0, begin = 0;
  for (const end of ends) {
    let sum = 0, first = i;
    for (; i < tokens.length && tokens[i].begin < end; i++) sum += tokens[i].gain;
    if (i > first) sentences.push({ begin: Math.max(begin, tokens[first].begin), end, gain: sum / (i - first), tokens: i - first });
    begin = end;
  }
  return sentences;
}

/** The index of the first unit that ends behind a place. */
function findUnit(units, place) {
  let low = 0, high = units.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (units[middle].end > place) high = middle;
    else low = middle + 1;
  }
  return low;
}

function findLevel(gain, unit) {
  const level = levels[unit].edges.findIndex((edge) => gain < edge);
  return level < 0 ? LEVELS - 1 : level;
}

/** Return a function from places of a block, asked in ascending order, to nodes and offsets. */
function makeLocator(block) {
  const walker = document.createTreeWalker(block.p, NodeFilter.SHOW_TEXT);
  walker.nextNode();
  let start = block.begin;
  return (place, opens) => {
    // a range begins at the start of a node rather than at the end of the one before
    while (place > start + walker.currentNode.length || (opens && place === start + walker.currentNode.length)) {
      const length = walker.currentNode.length;
      if (!walker.nextNode()) break;
      start += length;
    }
    return [walker.currentNode, Math.min(place - start, walker.currentNode.length)];
  };
}

function fillLegend(list, unit) {
  list.hidden = unit === "passage";
  find(".reader .key")?.toggleAttribute("hidden", !list.hidden);
  if (list.hidden) return;
  list.replaceChildren(...[...levels[unit].legend, unit === "token" ? "nats" : "nats per token"].map((label, i) => {
    const item = document.createElement("li");
    if (i < LEVELS) item.className = `g${i}`;
    item.textContent = label;
    return item;
  }));
}
