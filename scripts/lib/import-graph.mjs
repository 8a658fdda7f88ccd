import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

/** Captures the specifier of static, type and dynamic imports, of re-exports and of `import('…')` in types. */
const IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*['"]([^'"]+)['"]/g;

/**
 * Source files of one package with the files of the package that each imports, types included.
 *
 * @param {string} source the package's `src`
 * @returns {Map<string, string[]>} paths relative to `source`, in alphabetical order
 */
export function readImportGraph(source) {
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.(ts|tsx|mjs)$/.test(path) && !path.includes('node_modules'))
    .sort();
  return new Map(files.map((path) => [path, ownImportsOf(source, path)]));
}

/** @param {string} source @param {string} path */
function ownImportsOf(source, path) {
  const file = join(source, path);
  const targets = relativeImports(readFileSync(file, 'utf8')).map((specifier) => resolve(dirname(file), specifier));
  const own = targets.filter((target) => target.startsWith(`${source}/`) && existsSync(target));
  return [...new Set(own.map((target) => relative(source, target)))];
}

/** @param {string} text of a source file @returns {string[]} the modules that it imports */
export function importsOf(text) {
  return [...text.matchAll(IMPORT)].map(([, specifier = '']) => specifier);
}

/** @param {string} text of a source file @returns {string[]} the relative paths that it imports */
function relativeImports(text) {
  return importsOf(text).filter((specifier) => /^\.{1,2}\//.test(specifier));
}

/**
 * Nodes from which a node can be reached.
 *
 * @param {ReadonlyMap<string, readonly string[]>} graph @param {string} target
 * @returns {Set<string>} with `target` itself
 */
export function sourcesOf(graph, target) {
  const found = new Set([target]);
  for (let size = 0; size !== found.size;) {
    ({ size } = found);
    for (const [node, targets] of graph) if (targets.some((next) => found.has(next))) found.add(node);
  }
  return found;
}

/**
 * Knots of a directed graph: sets of nodes that all reach each other (Tarjan's strongly connected components
 * of more than one node, and nodes with an edge to themselves).
 *
 * @param {ReadonlyMap<string, readonly string[]>} graph
 * @returns {string[][]} sorted
 */
export function findKnots(graph) {
  /** @type {Map<string, { index: number, low: number, isOpen: boolean }>} */
  const visits = new Map();
  /** @type {string[]} */
  const open = [];
  /** @type {string[][]} */
  const knots = [];

  /** @param {string} node */
  const visit = (node) => {
    const own = { index: visits.size, low: visits.size, isOpen: true };
    visits.set(node, own);
    open.push(node);
    for (const target of graph.get(node) ?? []) {
      const known = visits.get(target) ?? visit(target);
      if (known.isOpen) own.low = Math.min(own.low, known.low);
    }
    if (own.low === own.index) {
      const knot = open.splice(open.indexOf(node));
      for (const member of knot) Object.assign(visits.get(member) ?? own, { isOpen: false });
      if (knot.length > 1 || (graph.get(node) ?? []).includes(node)) knots.push(knot.sort());
    }
    return own;
  };
  for (const node of graph.keys()) if (!visits.has(node)) visit(node);
  return knots.sort(([first = ''], [second = '']) => (first < second ? -1 : 1));
}

/**
 * A cycle inside a knot, the shortest from its first node.
 *
 * @param {ReadonlyMap<string, readonly string[]>} graph @param {readonly string[]} knot
 * @returns {string[]} the first node again at the end
 */
export function wayRound(graph, knot) {
  const [start = ''] = knot;
  /** @type {string[][]} */
  const ways = [[start]];
  const seen = new Set();
  for (const way of ways) {
    for (const target of graph.get(way.at(-1) ?? '') ?? []) {
      if (target === start) return [...way, start];
      if (!knot.includes(target) || seen.has(target)) continue;
      seen.add(target);
      ways.push([...way, target]);
    }
  }
  return [...knot];
}
