import { readFileSync, realpathSync, statSync } from 'node:fs';
import { type GgufWritableValue, shown } from '@trainyard/native';
import { TemplateProgram } from '@trainyard/tokenizer';
import { isRecord, type FolderFiles } from './folder-files.ts';
import { ModelFolderError } from './model-folder-error.ts';

export const TEMPLATE_FILES = ['chat_template.jinja', 'chat_template.json'] as const;
const [JINJA_FILE, JSON_FILE] = TEMPLATE_FILES;

const MAX_TEMPLATE_LENGTH = 1 << 20;
/** UTF-8 has at most three bytes for each character of a string's length. */
const MAX_TEMPLATE_BYTES = 3 * MAX_TEMPLATE_LENGTH;
const DEFAULT = 'default';

/**
 * `tokenizer.chat_template`, and `tokenizer.chat_template.NAME` for others; empty for a model without one. A file
 * of its own comes before tokenizer_config.json, as in transformers.
 *
 * @param own file of a template that replaces them
 * @throws {ModelFolderError}
 */
export function chatTemplates(files: FolderFiles, own: string | null = null): Record<string, GgufWritableValue> {
  const templates = own === null ? templatesOf(files) : [{ name: DEFAULT, template: readTemplateFile(own) }];
  for (const { name, template } of templates)
    if (template.length > MAX_TEMPLATE_LENGTH)
      throw new ModelFolderError(
        `the chat template ${shown(name)} has ${template.length} characters; at most ${MAX_TEMPLATE_LENGTH} are possible`,
      );
  const others = templates.filter(({ name }) => name !== DEFAULT);
  const standard = templates.find(({ name }) => name === DEFAULT);
  return {
    ...(standard === undefined ? {} : standardTemplate(standard.template)),
    ...(others.length === 0
      ? {}
      : { 'tokenizer.chat_templates': { array: { type: 'string', values: others.map(({ name }) => name) } } }),
    ...Object.fromEntries(others.map(({ name, template }) => [`tokenizer.chat_template.${name}`, template])),
  };
}

/** Metadata of a model whose messages are rendered by `source`. */
export const standardTemplate = (source: string): Record<string, GgufWritableValue> => ({
  'tokenizer.chat_template': source,
});

/** Place of a file with a chat template, without symbolic links. @throws {ModelFolderError} */
export function templatePlace(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    throw templateFault(path, `cannot be read: ${(error as Error).message}`);
  }
}

/**
 * Jinja source in a file of its own. A line break at its end stays, as in transformers.
 * @throws {ModelFolderError}
 */
export function readTemplateFile(path: string): string {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size > MAX_TEMPLATE_BYTES)
    throw templateFault(path, `has ${size} bytes; at most ${MAX_TEMPLATE_BYTES} are possible`);
  let source: string;
  try {
    source = new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path));
  } catch (error) {
    throw templateFault(path, `cannot be read as UTF-8: ${(error as Error).message}`);
  }
  if (source.trim() === '') throw templateFault(path, 'is empty');
  try {
    return new TemplateProgram(source).source;
  } catch (error) {
    throw templateFault(path, `is refused: ${(error as Error).message}`);
  }
}

const templateFault = (path: string, problem: string) => new ModelFolderError(`the chat template ${path} ${problem}`);

interface NamedTemplate {
  readonly name: string;
  readonly template: string;
}

function templatesOf(files: FolderFiles): readonly NamedTemplate[] {
  if (files.names.has(JINJA_FILE)) return [{ name: DEFAULT, template: files.readText(JINJA_FILE) }];
  const sources = [JSON_FILE, 'tokenizer_config.json'].map((file) => files.readOptionalJson(file));
  const given = sources.map((source) => source['chat_template']).find((value) => (value ?? null) !== null);
  if (given === undefined) return [];
  if (typeof given === 'string') return [{ name: DEFAULT, template: given }];
  if (!Array.isArray(given)) throw invalid(given);
  const seen = new Set<string>();
  return (given as readonly unknown[]).map((one) => {
    if (!isRecord(one)) throw invalid(one);
    const { name, template } = one;
    if (typeof name !== 'string' || !/^\w{1,64}$/.test(name) || seen.has(name) || typeof template !== 'string')
      throw invalid(one);
    seen.add(name);
    return { name, template };
  });
}

const invalid = (value: unknown) =>
  new ModelFolderError(
    `\`chat_template\` must be a template, or a list of templates with different names, got ${shown(value)}`,
  );
