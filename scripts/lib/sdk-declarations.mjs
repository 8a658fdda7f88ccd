import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

/**
 * Writes the types of the SDK, one file per entry; the files import only each other. A library derives the
 * wire types from schemas; users of the SDK need neither, because each type is written out.
 *
 * @param {string} root the repository
 * @param {string} folder of the output
 * @param {Readonly<Record<string, string>>} entries sources by file name
 * @param {NodeJS.Require} tools
 */
export async function writeSdkDeclarations(root, folder, entries, tools) {
  const tsconfig = join(root, 'scripts/client-tools/tsconfig.json');
  for (const [name, source] of Object.entries(entries)) {
    const file = join(folder, `${name}.d.ts`);
    await bundle(join(root, 'packages/sdk/src', source), file, tsconfig, tools);
    await writeFile(file, writeOut(file, tsconfig, tools));
    // A second pass, which drops unused declarations.
    await bundle(file, file, tsconfig, tools);
    const imported = /^import .* from '(?!\.\/index\.js')(.*)'/m.exec(await readFile(file, 'utf8'));
    if (imported !== null) throw new Error(`the types of the SDK import another package: ${imported[1]}`);
  }
}

/** The core's names in the sources and types of the other entries. */
const CORE = new Set(['../index.ts', './index.js']);

/** @param {string} input @param {string} output @param {string} tsconfig @param {NodeJS.Require} tools */
async function bundle(input, output, tsconfig, tools) {
  const { rollup } = tools('rollup');
  const plugin = tools.resolve('rollup-plugin-dts').replace(/\.cjs$/, '.mjs');
  const { dts } = await import(pathToFileURL(plugin).href);
  const onwarn = (/** @type {{ message: string }} */ { message }) => {
    throw new Error(`the types of the SDK: ${message}`);
  };
  // The core has its types in a separate file: classes with private members are only equal there.
  const beside = {
    name: 'beside-core',
    /** @param {string} id */
    resolveId: (id) => (CORE.has(id) ? { id: './index.js', external: true } : null),
  };
  const built = await rollup({ input, plugins: [beside, dts({ tsconfig, respectExternal: true })], onwarn });
  await built.write({ file: output, format: 'es' });
  await built.close();
}

/**
 * `type X = Static<typeof XSchema>` → `type X = { … }`.
 *
 * @param {string} file @param {string} tsconfig @param {NodeJS.Require} tools
 * @returns {string} the whole text
 */
function writeOut(file, tsconfig, tools) {
  // A release with a compiler API, which the native one lacks so far.
  const ts = tools('typescript');
  const { config } = ts.readConfigFile(tsconfig, ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, dirname(tsconfig));
  const program = ts.createProgram([file], options);
  const source = program.getSourceFile(file);
  if (source === undefined) throw new Error(`TypeScript did not read ${file}`);
  const checker = program.getTypeChecker();
  const printer = ts.createPrinter();
  const flags = ts.NodeBuilderFlags.NoTruncation | ts.NodeBuilderFlags.InTypeAlias;
  let text = source.text;
  // From the end, so that earlier positions stay valid.
  for (const statement of [...source.statements].reverse()) {
    if (!ts.isTypeAliasDeclaration(statement) || !statement.type.getText().startsWith('Static<')) continue;
    const type = checker.getTypeAtLocation(statement.name);
    const node = checker.typeToTypeNode(type, statement, flags);
    if (node === undefined || (type.flags & ts.TypeFlags.Any) !== 0) {
      throw new Error(`the type ${statement.name.text} cannot be written out`);
    }
    const written = printer.printNode(ts.EmitHint.Unspecified, node, source);
    text = text.slice(0, statement.type.getStart()) + written + text.slice(statement.type.end);
  }
  return text;
}
