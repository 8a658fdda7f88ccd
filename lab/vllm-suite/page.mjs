import { wrapProse } from '../../scripts/lib/wrap-prose.mjs';

/**
 * @typedef {{ class: 'small model' | 'flag of theirs' | 'deliberate', reason: string, mayPass?: boolean }} Expected
 *   a test that fails here, with the reason; `mayPass`: it depends on the model's text, or on the speed of the machine
 * @typedef {{ run: string[], left: Record<string, string> }} Files
 *   below `tests/`: files to run, and skipped files in the folders next to them, with the reason
 */

/** Meanings of the classes, in the order of the page. @type {Record<Expected['class'], string>} */
const CLASSES = {
  deliberate: 'this service deliberately answers differently',
  'flag of theirs': 'the test starts vLLM with an option that has no counterpart here',
  'small model': 'the test needs the answers of a larger model, or a model that reasons',
};

/**
 * @param {string} version of vLLM
 * @param {Files} files
 * @param {Record<string, Expected>} expected by test
 * @returns {string} Markdown
 */
export function renderSuitePage(version, files, expected) {
  const lines = [
    "# vLLM's own tests",
    '',
    `\`npm run lab -- vllm-suite\` fetches the source distribution of vLLM ${version} and runs its entrypoint tests against this service. Only fixtures are adapted (\`tests/vllm-suite/vllm_suite_plugin.py\`):`,
    'the handle on a server, names of models, the tokenizer, and a limit for conversations without one. This page lists the expected failures; any other failure fails the run, and so does a listed test that passes.',
    'It is generated from `tests/vllm-suite/expected.json` by `npm run lab -- vllm-suite --page`.',
  ];
  for (const [name, meaning] of Object.entries(CLASSES)) {
    const tests = Object.entries(expected).filter(([, known]) => known.class === name);
    lines.push(
      '',
      `## ${name[0]?.toUpperCase()}${name.slice(1)} (${tests.length})`,
      '',
      `${meaning[0]?.toUpperCase()}${meaning.slice(1)}.`,
      '',
    );
    lines.push('| test | reason |', '|---|---|');
    for (const [id, { reason, mayPass }] of tests.sort(([a], [b]) => (a < b ? -1 : 1)))
      lines.push(
        `| \`${shortId(id).replaceAll('|', '\\|')}\` | ${reason}${mayPass === true ? ' (sometimes passes)' : ''} |`,
      );
  }
  lines.push('', '## Run', '', ...files.run.map((file) => `- \`${shortId(file)}\``));
  lines.push(
    '',
    '## Not run',
    '',
    'Tests in the same files that use no server: they test Python classes of vLLM. Also:',
    '',
  );
  lines.push('| files | reason |', '|---|---|');
  for (const [what, why] of Object.entries(files.left)) lines.push(`| \`${what}\` | ${why} |`);
  return wrapProse(`${lines.join('\n')}\n`);
}

/** @param {string} id */
function shortId(id) {
  return id.replace(/^tests\//, '').replace(/^entrypoints\//, '');
}
