import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { filesBelow } from './files-below.mjs';
import { importsOf } from './import-graph.mjs';
import { drawPackageGraph } from './package-graph.mjs';
import { BROWSER_PACKAGES, PACKAGE_ARROWS, PUBLIC_ENTRIES, TEST_ARROWS } from './package-arrows.mjs';

const SCOPE = '@trainyard/';
export const PICTURE = 'docs/packages.svg';
const SOURCE = /\.(ts|tsx|mjs)$/;
const TEST_SOURCE = /(\.(test|test-d)\.tsx?$|\/testing\/)/;
/** Packages have no fixtures: every file of theirs is checked. */
const INSTALLED = new Set(['node_modules']);

/**
 * Model download shared by the bootstrap script, which runs before any package is installed, and the command
 * line.
 */
const SHARED_WITH_CLI = 'scripts/lib/';

/**
 * Checks the imports between packages: in source files, in package.json files, and by relative paths that
 * leave a package.
 * @param {string} root the repository
 * @returns {string[]} one sentence for each violation, empty without violations
 */
export function findArrowViolations(root) {
  const folders = readdirSync(join(root, 'packages'), { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const others = ['tests', 'examples', 'bench', 'lab', 'scripts'].filter((folder) => existsSync(join(root, folder)));
  return [
    ...findStalePicture(root),
    ...folders.flatMap(({ name }) => findPackageViolations(root, name)),
    ...others.flatMap((folder) => findImportViolations(root, folder, null)),
  ];
}

/** @param {string} root */
function findStalePicture(root) {
  const path = join(root, PICTURE);
  if (!existsSync(path) || readFileSync(path, 'utf8') === drawPackageGraph()) return [];
  return [`${PICTURE}: differs from the table of arrows; run npm run format`];
}

/**
 * @param {string} root @param {string} folder with source files
 * @param {string | null} name of the package; null = code outside packages, which may import all of them
 * @returns {string[]}
 */
function findImportViolations(root, folder, name) {
  return filesBelow(root, folder, SOURCE, name === null ? undefined : INSTALLED).flatMap((path) =>
    importsOf(readFileSync(join(root, path), 'utf8')).flatMap((specifier) => {
      const fault = importFault(specifier, path, name);
      const leaves = name !== null && leavesPackage(specifier, path, name);
      return [
        ...(fault === null ? [] : [`${path}: imports ${specifier}: ${fault}`]),
        ...(leaves ? [`${path}: imports ${specifier}, outside its package`] : []),
      ];
    }),
  );
}

/** @param {string} specifier @param {string} path of the importing file @param {string | null} name of its package @returns {string | null} */
function importFault(specifier, path, name) {
  const isTest = TEST_SOURCE.test(path);
  if (/(^|\/)packages\/[^/]+\/src\//.test(specifier)) return 'import a package by its name';
  if (specifier.startsWith('node:'))
    return name !== null && BROWSER_PACKAGES.includes(name) && path.includes('/src/') && !isTest
      ? `${name} also runs in a browser`
      : null;
  if (!specifier.startsWith(SCOPE)) return null;
  const entry = specifier.slice(SCOPE.length);
  const [target = '', part] = entry.split('/');
  // The check of rooms covers `testing` entries.
  if (part !== undefined && part !== 'testing' && !PUBLIC_ENTRIES.includes(entry))
    return 'symbols that index.ts does not export are private';
  if (name === null || target === name) return null;
  const allowed = [...(PACKAGE_ARROWS[name] ?? []), ...(isTest ? (TEST_ARROWS[name] ?? []) : [])];
  const isAllowed = allowed.some(
    (arrow) => arrow === target || arrow === entry || (part === 'testing' && arrow.startsWith(`${target}/`)),
  );
  return isAllowed ? null : `${name} may import ${allowed.join(', ') || 'no other package'}`;
}

/** @param {string} root @param {string} name */
function findPackageViolations(root, name) {
  const folder = join(root, 'packages', name);
  const manifestPath = join(folder, 'package.json');
  const imports = findImportViolations(root, join('packages', name), name);
  if (!existsSync(manifestPath)) return imports;
  const allowed = PACKAGE_ARROWS[name];
  if (allowed === undefined) return [`packages/${name}: not in the table of scripts/lib/package-arrows.mjs`];
  return [...findManifestViolations(root, name, manifestPath, allowed), ...imports];
}

/** @param {string} root @param {string} name @param {string} manifestPath @param {readonly string[]} allowed */
function findManifestViolations(root, name, manifestPath, allowed) {
  const manifest = JSON.parse(readFileSync(manifestPath, 'utf8'));
  const violations = [];
  if (manifest.name !== SCOPE + name)
    violations.push(`packages/${name}: is named ${manifest.name}, not ${SCOPE}${name}`);
  for (const group of ['dependencies', 'devDependencies', 'peerDependencies', 'optionalDependencies']) {
    for (const [dependency, version] of Object.entries(manifest[group] ?? {})) {
      if (!dependency.startsWith(SCOPE)) continue;
      const target = dependency.slice(SCOPE.length);
      const isForTests = group === 'devDependencies' && TEST_ARROWS[name]?.includes(target) === true;
      const isAllowed = allowed.some((arrow) => arrow === target || arrow.startsWith(`${target}/`));
      if (!isAllowed && !isForTests) {
        violations.push(
          `packages/${name}: ${group} has ${dependency}; ${name} may import ${allowed.join(', ') || 'no other package'}`,
        );
        continue;
      }
      const actual = JSON.parse(readFileSync(join(root, 'packages', target, 'package.json'), 'utf8')).version;
      if (version !== actual)
        violations.push(`packages/${name}: asks for ${dependency} ${version}, which is at ${actual}`);
    }
  }
  return violations;
}

/** @param {string} specifier @param {string} path of the importing file @param {string} name of its package @returns {boolean} */
function leavesPackage(specifier, path, name) {
  if (!/^\.{1,2}\//.test(specifier)) return false;
  const target = join(dirname(path), specifier);
  if (target.startsWith(`packages/${name}/`) || (name === 'cli' && target.startsWith(SHARED_WITH_CLI))) return false;
  // Tests share support files with tests/.
  return !(path.endsWith('.test.ts') && target.startsWith('tests/support/'));
}
