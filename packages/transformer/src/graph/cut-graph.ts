import { topologicalOrder } from './autodiff.ts';
import { input } from './graph.ts';
import type { Value } from './graph.ts';

/** A product between two parts of a graph; x is known after the part before it. */
export interface CutProduct {
  readonly name: string;
  /** An input of the whole graph, a product, or an output of a part. */
  readonly x: string;
  readonly matrix: string;
  readonly isTransposed: boolean;
}

/** The products follow the part, which has none. */
export interface GraphPart {
  readonly outputs: Readonly<Record<string, Value>>;
  readonly products: readonly CutProduct[];
}

/**
 * Cuts a graph at its products.
 *
 * @param outputs, savedAsInputs as for `compileGraph`
 * @returns parts in execution order; a part without outputs has nothing to compute before its products
 */
export function cutGraph(outputs: Readonly<Record<string, Value>>, savedAsInputs: boolean): readonly GraphPart[] {
  const isLeaf = ({ operation: { kind } }: Value) =>
    kind === 'input' || kind === 'constant' || (kind === 'saved' && savedAsInputs);
  const order = topologicalOrder(Object.values(outputs), isLeaf);
  /** First part in which a value is available; a product's result is an input of it. */
  const parts = new Map<Value, number>();
  for (const node of order) {
    const latest = isLeaf(node) ? 0 : Math.max(0, ...node.inputs.map((x) => parts.get(x)!));
    parts.set(node, latest + Number(node.operation.kind === 'product'));
  }
  const names = new Map<Value, string>();
  for (const [name, node] of Object.entries(outputs)) if (!names.has(node)) names.set(node, name);
  const nameOf = (node: Value): string => {
    if (node.operation.kind === 'input' || node.operation.kind === 'saved') return node.operation.name;
    const name = names.get(node) ?? `cut${names.size}`;
    names.set(node, name);
    return name;
  };

  const numParts = 1 + Math.max(0, ...order.map((node) => parts.get(node)!));
  const wanted = Array.from({ length: numParts }, () => new Map<string, Value>());
  const products = Array.from({ length: numParts }, () => new Map<string, CutProduct>());
  const want = (node: Value): string => {
    const name = nameOf(node);
    const { operation } = node;
    if (operation.kind === 'product') {
      const { matrix, isTransposed } = operation;
      const x = node.inputs[0]!;
      products[parts.get(node)! - 1]!.set(name, { name, x: want(x), matrix, isTransposed });
    } else if (!isLeaf(node)) wanted[parts.get(node)!]!.set(name, node);
    return name;
  };
  for (const [name, node] of Object.entries(outputs)) {
    if (want(node) === name) continue;
    // A value with a different name that is known before any part, or has two names.
    wanted[parts.get(node)!]!.set(name, node);
  }

  // Starts with the last part: its inputs from earlier parts must be known when those are written.
  const cut: GraphPart[] = [];
  for (let part = numParts - 1; part >= 0; part--) {
    const rewritten = new Map<Value, Value>();
    const rewrite = (node: Value): Value => {
      const known = rewritten.get(node);
      if (known !== undefined) return known;
      let result = node;
      if (!isLeaf(node)) {
        const isHere = parts.get(node) === part && node.operation.kind !== 'product';
        result = isHere ? { ...node, inputs: node.inputs.map(rewrite) } : input(want(node), node.shape, node.type);
      }
      rewritten.set(node, result);
      return result;
    };
    const ownOutputs = Array.from(wanted[part]!, ([name, node]) => [name, rewrite(node)] as const);
    cut.unshift({ outputs: Object.fromEntries(ownOutputs), products: [...products[part]!.values()] });
  }
  return cut;
}
