import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

import { findKnots, readImportGraph, wayRound } from './import-graph.mjs';
import { FILES_OF_A_FOLDER, ROOM_DEBTS } from './room-debts.mjs';

/** Its files, and files that are themselves tests, may import what plays a part in tests. */
const TESTING = 'testing';
const TEST_FILE = /\.(test|test-d|suite|fixture)\.ts$/;
const TESTING_IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*['"](@trainyard\/[a-z]+\/testing)['"]/g;

/**
 * How the source of each package is divided: files import each other in no circle, types included; neither do the folders directly below `src` (its
 * rooms), tests apart; no folder holds too many files; and what plays a part in tests is imported by tests alone.
 *
 * @param {string} root the repository
 * @returns {string[]} one sentence for each violation, empty when all is well
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
    ...findRoomCircles(name, roomGraph(parts)),
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
  const knots = findKnots(graph);
  const numKnotted = knots.flat().length;
  if (numKnotted <= (ROOM_DEBTS.knottedFiles[name] ?? 0)) return [];
  return knots.map(
    (knot) => `packages/${name}/src: ${wayRound(graph, knot).join(' → ')}: files import each other in a circle`,
  );
}

/** @param {string} name @param {ReadonlyMap<string, readonly string[]>} graph of rooms */
function findRoomCircles(name, graph) {
  const knots = findKnots(graph);
  const numKnotted = knots.flat().length;
  if (numKnotted <= (ROOM_DEBTS.knottedRooms[name] ?? 0)) return [];
  return knots.map((knot) => {
    const way = wayRound(graph, knot).join(' → ');
    return `packages/${name}/src: ${way}: ${knot.length} rooms import each other in a circle (. is src itself); one of these arrows points up`;
  });
}

/** @param {ReadonlyMap<string, readonly string[]>} graph of files @returns {Map<string, string[]>} */
function roomGraph(graph) {
  /** @type {Map<string, Set<string>>} */
  const rooms = new Map();
  for (const [path, targets] of graph) {
    const room = roomOf(path);
    const others = rooms.get(room) ?? new Set();
    rooms.set(room, others);
    for (const target of targets) if (roomOf(target) !== room) others.add(roomOf(target));
  }
  return new Map([...rooms].map(([room, others]) => [room, [...others].sort((a, b) => (a < b ? -1 : 1))]));
}

/** @param {string} path */
function roomOf(path) {
  return path.includes('/') ? path.slice(0, path.indexOf('/')) : '.';
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
    const limit = ROOM_DEBTS.crowdedFolders[folder] ?? FILES_OF_A_FOLDER;
    return size <= limit
      ? []
      : [`packages/${folder}: holds ${size} files, tests apart; at most ${limit}: divide it into rooms`];
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
