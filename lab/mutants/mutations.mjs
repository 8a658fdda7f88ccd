import { SyntaxKind } from 'typescript/unstable/ast';
import {
  isBinaryExpression,
  isBlock,
  isCallExpression,
  isConditionalExpression,
  isExportDeclaration,
  isExpressionStatement,
  isIfStatement,
  isImportDeclaration,
  isNumericLiteral,
  isPrefixUnaryExpression,
  isReturnStatement,
  isTypeNode,
} from 'typescript/unstable/ast/is';

/**
 * A small fault in a source file.
 *
 * @typedef {object} Mutation
 * @property {string} kind
 * @property {number} start of the replaced text, in UTF-16 units
 * @property {number} end
 * @property {string} replacement
 */

/** @typedef {import('typescript/unstable/ast').Node} Node */
/** @typedef {import('typescript/unstable/ast').SourceFile} SourceFile */

/** Replacements of operators, with the kind of fault. @type {Readonly<Record<string, readonly [string, string]>>} */
const OPERATORS = {
  '<': ['<=', 'comparison'],
  '<=': ['<', 'comparison'],
  '>': ['>=', 'comparison'],
  '>=': ['>', 'comparison'],
  '===': ['!==', 'comparison'],
  '!==': ['===', 'comparison'],
  '+': ['-', 'arithmetic'],
  '-': ['+', 'arithmetic'],
  '*': ['/', 'arithmetic'],
  '/': ['*', 'arithmetic'],
  '%': ['*', 'arithmetic'],
  '+=': ['-=', 'arithmetic'],
  '-=': ['+=', 'arithmetic'],
  '*=': ['/=', 'arithmetic'],
  '/=': ['*=', 'arithmetic'],
  '&&': ['||', 'logic'],
  '||': ['&&', 'logic'],
};

/** Values that a `return` may be replaced by; the types decide which of them fit. */
const EARLY_RESULTS = ['null', '[]', '0', 'false', 'true'];

/**
 * All possible faults of a file, including those that its types exclude. Skips types, imports and arguments
 * of `assert`: assertions state conditions that no input violates.
 *
 * @param {SourceFile} file
 * @returns {Mutation[]} in the order of the text
 */
export function mutationsOf(file) {
  /** @type {Mutation[]} */
  const found = [];
  /** @param {Node} node */
  const visit = (node) => {
    if (isTypeNode(node) || isImportDeclaration(node) || isExportDeclaration(node) || isAssertion(node, file)) return;
    found.push(...mutationsAt(node, file));
    node.forEachChild(visit);
  };
  file.forEachChild(visit);
  return found.sort((first, second) => first.start - second.start || first.end - second.end);
}

/** @param {Node} node @param {SourceFile} file */
function isAssertion(node, file) {
  return isCallExpression(node) && /^assert\b/.test(node.expression.getText(file));
}

/** @param {Node} node @param {SourceFile} file @returns {Mutation[]} */
function mutationsAt(node, file) {
  const text = node.getText(file);
  /** @param {string} kind @param {Node} at @param {string} replacement */
  const replaced = (kind, at, replacement) => ({ kind, start: at.getStart(file), end: at.end, replacement });
  if (isBinaryExpression(node)) {
    const operator = node.operatorToken.getText(file);
    if (operator === '??') return [replaced('default', node, node.right.getText(file))];
    const change = Object.hasOwn(OPERATORS, operator) ? OPERATORS[operator] : undefined;
    return change === undefined ? [] : [replaced(change[1], node.operatorToken, change[0])];
  }
  if (isPrefixUnaryExpression(node)) {
    if (node.operator === SyntaxKind.ExclamationToken) return [replaced('negation', node, node.operand.getText(file))];
    if (node.operator === SyntaxKind.MinusToken) return [replaced('sign', node, node.operand.getText(file))];
    return [];
  }
  if (isNumericLiteral(node)) return [replaced('constant', node, offByOne(text))];
  if (node.kind === SyntaxKind.TrueKeyword) return [replaced('constant', node, 'false')];
  if (node.kind === SyntaxKind.FalseKeyword) return [replaced('constant', node, 'true')];
  if (isConditionalExpression(node)) return [negated(node.condition, file)];
  if (isIfStatement(node)) {
    const dropped = node.elseStatement === undefined ? [replaced('dropped statement', node, ';')] : [];
    return [negated(node.expression, file), ...dropped];
  }
  if (isExpressionStatement(node)) return [replaced('dropped statement', node, ';')];
  if (isReturnStatement(node) && node.expression !== undefined) {
    const { expression } = node;
    return EARLY_RESULTS.filter((result) => result !== expression.getText(file)).map((result) =>
      replaced('early return', expression, result),
    );
  }
  if (isBlock(node) && node.statements.length > 0 && isBodyOfFunction(node))
    return [
      { kind: 'early return', start: node.getStart(file) + 1, end: node.getStart(file) + 1, replacement: ' return;' },
    ];
  return [];
}

/** @param {import('typescript/unstable/ast').Expression} condition @param {SourceFile} file @returns {Mutation} */
function negated(condition, file) {
  const [start, end] = [condition.getStart(file), condition.end];
  return { kind: 'negation', start, end, replacement: `!(${condition.getText(file)})` };
}

/** @param {Node} block */
function isBodyOfFunction(block) {
  const { parent } = block;
  const kinds = [
    SyntaxKind.FunctionDeclaration,
    SyntaxKind.FunctionExpression,
    SyntaxKind.MethodDeclaration,
    SyntaxKind.ArrowFunction,
    SyntaxKind.Constructor,
  ];
  return parent !== undefined && kinds.includes(parent.kind);
}

/** Mutations of a number's source text. @param {string} literal */
function offByOne(literal) {
  const value = Number(literal.replaceAll('_', ''));
  if (Number.isInteger(value)) return String(value + 1);
  return String(value * 2);
}

/** @param {string} text @param {Mutation} mutation */
export function mutate(text, { start, end, replacement }) {
  return text.slice(0, start) + replacement + text.slice(end);
}

/** Description of a mutation in a report. @param {string} text of the file @param {Mutation} mutation */
export function describeMutation(text, { kind, start, end, replacement }) {
  const before = text.slice(start, end);
  if (kind === 'dropped statement') return `${kind}: ${oneLine(before)}`;
  return before === '' ? `${kind}: nothing after this line` : `${kind}: ${oneLine(before)} → ${oneLine(replacement)}`;
}

/** @param {string} text */
function oneLine(text) {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length > 80 ? `${line.slice(0, 79)}…` : line;
}
