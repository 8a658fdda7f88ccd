import { topologicalOrder } from './autodiff.ts';
import { input } from './graph.ts';
import type { Value } from './graph.ts';

/** A product between two parts of a graph: x is known when the part before it has run. */
export interface CutProduct {
  /** The result's, which later parts read. */
  readonly name: string;
  /** The name of what is multiplied: an input of the whole graph, a product, or an output of a part. */
  readonly x: string;
  readonly matrix: string;
  readonly isTransposed: boolean;
}

/** A piece without products, and then the products that wait for it. */
export interface GraphPart {
  readonly outputs: Readonly<Record<string, Value>>;
  readonly products: readonly CutProduct[];
}

/**
 * Cuts a graph at its products: the parts between them have none, and read what parts and products before them gave as inputs.
 *
 * @param outputs as for `compileGraph` @param savedAsInputs as there
 * @returns parts in the order in which they run; one without outputs has nothing to compute before its products
 */
export function cutGraph(outputs: Readonly<Record<string, Value>>, savedAsInputs: boolean): readonly GraphPart[] {
  const isLeaf = ({ operation: { kind } }: Value) =>
    kind === 'input' || kind === 'constant' || (kind === 'saved' && savedAsInputs);
  const order = topologicalOrder(Object.values(outputs), isLeaf);
  /** The first part in which a value is there; a product's result is an input of it. */
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
    // Something of another name, which is known before any part of the graph or under two names.
    wanted[parts.get(node)!]!.set(name, node);
  }

  // From the last part on: what it reads of earlier ones is known when they are written.
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
