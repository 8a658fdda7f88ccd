import { type GgufWritableValue, shown } from '@trainyard/native';
import { isRecord, type FolderFiles } from './folder-files.ts';
import { ModelFolderError } from './model-folder-error.ts';

export const TEMPLATE_FILES = ['chat_template.jinja', 'chat_template.json'] as const;
const [JINJA_FILE, JSON_FILE] = TEMPLATE_FILES;

const MAX_TEMPLATE_LENGTH = 1 << 20;
const DEFAULT = 'default';

/**
 * `tokenizer.chat_template`, and `tokenizer.chat_template.NAME` for others; empty for a model without one. A file
 * of its own comes before tokenizer_config.json, as in transformers.
 *
 * @throws {ModelFolderError}
 */
export function chatTemplates(files: FolderFiles): Record<string, GgufWritableValue> {
  const templates = templatesOf(files);
  for (const { name, template } of templates)
    if (template.length > MAX_TEMPLATE_LENGTH)
      throw new ModelFolderError(
        `the chat template ${shown(name)} has ${template.length} characters; at most ${MAX_TEMPLATE_LENGTH} are possible`,
      );
  const others = templates.filter(({ name }) => name !== DEFAULT);
  const standard = templates.find(({ name }) => name === DEFAULT);
  return {
    ...(standard === undefined ? {} : { 'tokenizer.chat_template': standard.template }),
    ...(others.length === 0
      ? {}
      : { 'tokenizer.chat_templates': { array: { type: 'string', values: others.map(({ name }) => name) } } }),
    ...Object.fromEntries(others.map(({ name, template }) => [`tokenizer.chat_template.${name}`, template])),
  };
}

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
