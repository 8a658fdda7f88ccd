import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

import { relativeImports } from './import-graph.mjs';
import { PACKAGE_ARROWS, restrictedImportOverrides, TEST_ARROWS } from './package-arrows.mjs';

const SCOPE = '@trainyard/';

/** Fetching the model is shared between the bootstrap script, which runs before any package is installed, and the command line. */
const SHARED_WITH_CLI = 'scripts/lib/';

/**
 * Checks the package arrows that the linter cannot see: package.json files, relative paths that leave a package, and its own configuration.
 * @param {string} root the repository
 * @returns {string[]} one sentence for each violation, empty when all is well
 */
export function findArrowViolations(root) {
  const folders = readdirSync(join(root, 'packages'), { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return [...findLinterDrift(root), ...folders.flatMap(({ name }) => findPackageViolations(root, name))];
}

/** @param {string} root */
function findLinterDrift(root) {
  const { overrides } = JSON.parse(readFileSync(join(root, '.oxlintrc.json'), 'utf8'));
  const isSame = JSON.stringify(overrides) === JSON.stringify(restrictedImportOverrides());
  return isSame
    ? []
    : ['.oxlintrc.json: "overrides" differ from restrictedImportOverrides() in scripts/lib/package-arrows.mjs'];
}

/** @param {string} root @param {string} name */
function findPackageViolations(root, name) {
  const folder = join(root, 'packages', name);
  const manifestPath = join(folder, 'package.json');
  if (!existsSync(manifestPath)) return [];
  const allowed = PACKAGE_ARROWS[name];
  if (allowed === undefined) return [`packages/${name}: not in the table of scripts/lib/package-arrows.mjs`];
  return [...findManifestViolations(root, name, manifestPath, allowed), ...findEscapes(root, folder, name)];
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

/** @param {string} root @param {string} folder @param {string} name */
function findEscapes(root, folder, name) {
  const violations = [];
  for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!/\.(ts|tsx|mjs)$/.test(path) || path.includes('node_modules')) continue;
    const file = join(folder, path);
    for (const specifier of relativeImports(readFileSync(file, 'utf8'))) {
      const target = relative(root, resolve(dirname(file), specifier));
      if (target.startsWith(`packages/${name}/`) || (name === 'cli' && target.startsWith(SHARED_WITH_CLI))) continue;
      // Tests share their support files with tests/.
      if (path.endsWith('.test.ts') && target.startsWith('tests/support/')) continue;
      violations.push(`${relative(root, file)}: imports ${specifier}, outside its package`);
    }
  }
  return violations;
}
