import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

import { findKnots, readImportGraph, wayRound } from './import-graph.mjs';
import { FILES_OF_A_FOLDER, WINGS } from './room-rules.mjs';

/** Its files, and test files, may import test helpers. */
const TESTING = 'testing';
const TEST_FILE = /\.(test|test-d|suite|fixture)\.ts$/;
const TESTING_IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*['"](@trainyard\/[a-z]+\/testing)['"]/g;

/**
 * Checks the division of each package's source: files do not import each other in a circle, types included;
 * nor do the folders of one folder (its rooms), except tests; the rooms of a package with wings import only
 * those before them; no folder has too many files; and only tests import the rooms for tests.
 *
 * @param {string} root the repository
 * @returns {string[]} one sentence for each violation, empty without violations
 */
export function findRoomViolations(root) {
  return readdirSync(join(root, 'packages')).flatMap((name) => {
    const source = join(root, 'packages', name, 'src');
    return existsSync(source) ? findPackageViolations(name, source) : [];
  });
}

/** @param {string} name @param {string} source */
function findPackageViolations(name, source) {
  const graph = readImportGraph(source);
  const parts = new Map([...graph].filter(([path]) => !isTesting(path)));
  return [
    ...findFileCircles(name, graph),
    ...foldersWithRooms(parts.keys()).flatMap((folder) => findRoomCircles(name, folder, roomGraph(parts, folder))),
    ...findUpwardImports(name, parts),
    ...findCrowdedFolders(name, parts.keys()),
    ...findTestingImports(name, source, parts),
  ];
}

/** @param {string} path relative to `src` */
function isTesting(path) {
  return TEST_FILE.test(path) || dirname(path).split('/').includes(TESTING);
}

/** @param {string} name @param {ReadonlyMap<string, readonly string[]>} graph */
function findFileCircles(name, graph) {
  return findKnots(graph).map(
    (knot) => `packages/${name}/src: ${wayRound(graph, knot).join(' → ')}: import cycle between files`,
  );
}

/** @param {Iterable<string>} paths @returns {string[]} folders below `src` that have folders, each with a slash at its end; `src` itself is "" */
function foldersWithRooms(paths) {
  const folders = new Set(['']);
  for (const path of paths) {
    const parents = path.split('/').slice(0, -2);
    for (const [index] of parents.entries()) folders.add(`${parents.slice(0, index + 1).join('/')}/`);
  }
  return [...folders].sort();
}

/** @param {string} name @param {string} folder @param {ReadonlyMap<string, readonly string[]>} graph of rooms */
function findRoomCircles(name, folder, graph) {
  return findKnots(graph).map((knot) => {
    const way = wayRound(graph, knot).join(' → ');
    return `packages/${name}/src/${folder}: ${way}: ${knot.length} rooms form an import cycle (. is src itself); remove one of these arrows`;
  });
}

/**
 * @param {ReadonlyMap<string, readonly string[]>} graph of files @param {string} folder with a slash at its end
 * @returns {Map<string, string[]>} the rooms of the folder, each with the rooms it imports
 */
function roomGraph(graph, folder) {
  /** @type {Map<string, Set<string>>} */
  const rooms = new Map();
  for (const [path, targets] of graph) {
    if (!path.startsWith(folder)) continue;
    const room = roomOf(path, folder);
    // Files next to folders may be the base of some and use others.
    if (room === '.' && folder !== '') continue;
    const others = rooms.get(room) ?? new Set();
    rooms.set(room, others);
    for (const target of targets) {
      const other = roomOf(target, folder);
      if (target.startsWith(folder) && other !== room && (other !== '.' || folder === '')) others.add(other);
    }
  }
  return new Map([...rooms].map(([room, others]) => [room, [...others].sort((a, b) => (a < b ? -1 : 1))]));
}

/** @param {string} path @param {string} folder */
function roomOf(path, folder) {
  const rest = path.slice(folder.length);
  return rest.includes('/') ? rest.slice(0, rest.indexOf('/')) : '.';
}

/** @param {string} name @param {ReadonlyMap<string, readonly string[]>} graph of files */
function findUpwardImports(name, graph) {
  const wings = WINGS[name];
  if (wings === undefined) return [];
  return [...graph].flatMap(([path, targets]) => {
    const from = wings.indexOf(roomOf(path, ''));
    if (from === -1 && roomOf(path, '') !== '.')
      return [`packages/${name}/src/${path}: in none of the wings ${wings.join(', ')}`];
    return targets
      .filter((target) => from !== -1 && !wings.slice(0, from + 1).includes(roomOf(target, '')))
      .map((target) => `packages/${name}/src/${path}: imports ${target}, of a wing above its own`);
  });
}

/** @param {string} name @param {Iterable<string>} paths */
function findCrowdedFolders(name, paths) {
  /** @type {Map<string, number>} */
  const sizes = new Map();
  for (const path of paths) {
    const folder = join(name, 'src', dirname(path));
    sizes.set(folder, (sizes.get(folder) ?? 0) + 1);
  }
  return [...sizes].flatMap(([folder, size]) => {
    return size <= FILES_OF_A_FOLDER
      ? []
      : [`packages/${folder}: holds ${size} files, tests apart; at most ${FILES_OF_A_FOLDER}: divide it into rooms`];
  });
}

/** @param {string} name @param {string} source @param {ReadonlyMap<string, readonly string[]>} parts */
function findTestingImports(name, source, parts) {
  return [...parts].flatMap(([path, targets]) => {
    const text = readFileSync(join(source, path), 'utf8');
    const packages = [...text.matchAll(TESTING_IMPORT)].map(([, specifier = '']) => specifier);
    return [...targets.filter(isTesting), ...packages].map(
      (target) => `packages/${name}/src/${path}: imports ${target}, which is for tests; ${basename(path)} is none`,
    );
  });
}
