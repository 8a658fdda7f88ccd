import { PACKAGE_ARROWS } from './package-arrows.mjs';

const BOX = { width: 112, height: 34 };
const GAP = { x: 34, y: 52 };
const MARGIN = 16;

/**
 * Column and row of each package, from the top left; a package is above its imports.
 * @type {Readonly<Record<string, readonly [number, number]>>}
 */
const PLACES = {
  cli: [3.1, 0],
  server: [3.1, 1],
  dashboard: [5.5, 1],
  store: [0, 2],
  tinker: [1.1, 2],
  sdk: [5.5, 2],
  trainer: [1, 3],
  engine: [2.1, 3],
  generation: [3.2, 3],
  vllm: [4.25, 3],
  protocol: [5.3, 3],
  decoder: [0.6, 4],
  tokenizer: [2.1, 4],
  constraints: [3.2, 4],
  backend: [4.25, 4],
  transformer: [0.6, 5],
  native: [1.5, 6],
};

/**
 * Picture of the packages: an arrow points from a package to one that it imports. Omits implied arrows, and
 * those to `protocol/fields` and `protocol/json`.
 *
 * @returns {string} SVG
 */
export function drawPackageGraph() {
  const arrows = shortArrows();
  const places = new Map(
    [...arrows.keys()].map((name) => {
      const place = PLACES[name];
      if (place === undefined) throw new Error(`scripts/lib/package-graph.mjs: no place for ${name}`);
      const [column, row] = place;
      return [name, { x: MARGIN + column * (BOX.width + GAP.x), y: MARGIN + row * (BOX.height + GAP.y) }];
    }),
  );
  const width = Math.max(...[...places.values()].map(({ x }) => x)) + BOX.width + MARGIN;
  const height = Math.max(...[...places.values()].map(({ y }) => y)) + BOX.height + MARGIN;
  const lines = [...arrows].flatMap(([name, targets]) =>
    targets.map((target) => {
      const from = places.get(name);
      const to = places.get(target);
      if (from === undefined || to === undefined) throw new Error(`no place for ${name} or ${target}`);
      const [x1, y1] = [from.x + BOX.width / 2, from.y + BOX.height];
      const [x2, y2] = [to.x + BOX.width / 2, to.y - 2];
      const bend = Math.min(70, (y2 - y1) / 2);
      return `<path d="M${x1} ${y1} C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}" marker-end="url(#head)"/>`;
    }),
  );
  const boxes = [...places].map(
    ([name, { x, y }]) =>
      `<rect x="${x}" y="${y}" width="${BOX.width}" height="${BOX.height}" rx="6"/><text x="${x + BOX.width / 2}" y="${y + 22}">${name}</text>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" role="img" aria-label="Packages and their imports">
<style>svg{background:#fff}rect{fill:#f3f5f8;stroke:#5a6b82}path{fill:none;stroke:#5a6b82;stroke-width:1.3}text{font:14px system-ui,sans-serif;fill:#1b2430;text-anchor:middle}</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#5a6b82;stroke:none"/></marker></defs>
${lines.join('\n')}
${boxes.join('\n')}
</svg>
`;
}

/** Direct arrows between packages without a longer path. @returns {Map<string, string[]>} */
function shortArrows() {
  const direct = new Map(
    Object.entries(PACKAGE_ARROWS).map(([name, targets]) => [name, targets.filter((target) => !target.includes('/'))]),
  );
  /** @param {string} from @param {string} to @returns {boolean} */
  const reaches = (from, to) => (direct.get(from) ?? []).some((next) => next === to || reaches(next, to));
  return new Map(
    [...direct].map(([name, targets]) => [
      name,
      targets.filter((target) => !targets.some((other) => other !== target && reaches(other, target))),
    ]),
  );
}
