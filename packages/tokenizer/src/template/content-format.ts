import type { parse } from '@huggingface/jinja';
import type { ContentFormat } from '../contract/template-message.ts';

type Node = Readonly<Record<string, unknown>> & { readonly type: string };

/**
 * Does the template iterate over a message's content? Then it expects a list of parts, else a string.
 *
 * Followed through the syntax tree: `messages` and variables set from it, loop variables over those, their `content` and variables
 * set from that; filters and slices in between do not matter.
 * @see vLLM, chat template content format detection
 */
export function detectContentFormat(program: ReturnType<typeof parse>): ContentFormat {
  const nodes = [...walk(program)];
  const assignments = nodes
    .filter(({ type }) => type === 'Set')
    .map((node) => ({ name: identifierName(node['assignee']), value: node['value'] }));
  const loops = nodes
    .filter(({ type }) => type === 'For')
    .map((node) => ({ name: identifierName(node['loopvar']), iterable: node['iterable'] }));
  const withAliases = (names: Set<string>, isSource: (value: unknown) => boolean) => {
    for (let size = -1; size !== names.size;) {
      size = names.size;
      for (const { name, value } of assignments) {
        if (name !== null && (isSource(value) || isNamed(value, names))) names.add(name);
      }
    }
    return names;
  };

  const lists = withAliases(new Set(['messages']), () => false);
  const loopMessages = loops.filter(({ iterable }) => isNamed(iterable, lists)).flatMap(({ name }) => name ?? []);
  const isElement = (value: unknown) =>
    isNode(value) && value.type === 'MemberExpression' && isNamed(value['object'], lists);
  const messages = withAliases(new Set(loopMessages), isElement);
  const isContent = (value: unknown) => {
    const inner = unwrap(value);
    if (inner?.type !== 'MemberExpression' || memberName(inner) !== 'content') return false;
    return isNamed(inner['object'], messages) || isElement(inner['object']);
  };
  const contents = withAliases(new Set(), isContent);
  return loops.some(({ iterable }) => isContent(iterable) || isNamed(iterable, contents)) ? 'parts' : 'string';
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
}

function* walk(value: unknown): Generator<Node> {
  if (Array.isArray(value)) for (const element of value) yield* walk(element);
  else if (value instanceof Map) for (const [key, element] of value) yield* walk([key, element]);
  else if (isNode(value)) {
    yield value;
    for (const child of Object.values(value)) if (typeof child === 'object') yield* walk(child);
  }
}

/** Without filters, tests, conditions and slices: `messages[1:] | reject(…)` → `messages`. */
function unwrap(value: unknown): Node | null {
  if (!isNode(value)) return null;
  if (value.type === 'FilterExpression' || value.type === 'TestExpression') return unwrap(value['operand']);
  if (value.type === 'SelectExpression') return unwrap(value['lhs']);
  if (value.type === 'MemberExpression' && isNode(value['property']) && value['property'].type === 'SliceExpression') {
    return unwrap(value['object']);
  }
  return value;
}

function isNamed(value: unknown, names: ReadonlySet<string>): boolean {
  const name = identifierName(unwrap(value));
  return name !== null && names.has(name);
}

function identifierName(value: unknown): string | null {
  return isNode(value) && value.type === 'Identifier' && typeof value['value'] === 'string' ? value['value'] : null;
}

function memberName(node: Node): string | null {
  const property = node['property'];
  if (!isNode(property) || typeof property['value'] !== 'string') return null;
  const isConstant = node['computed'] === true ? property.type === 'StringLiteral' : property.type === 'Identifier';
  return isConstant ? property['value'] : null;
}
