import type { Shape } from './graph.ts';
import type { OnnxNode } from './onnx-writer.ts';

/**
 * Turns `Add(x, Gemm(a, b))` into `Gemm(a, b, x)`, which saves a pass over memory, if no other node reads the
 * product.
 *
 * @param nodes in execution order; changed in place
 * @param shapes of every result by name
 * @param outputs names that must stay
 */
export function fuseSums(nodes: OnnxNode[], shapes: ReadonlyMap<string, Shape>, outputs: readonly string[]): void {
  const readers = new Map<string, number>();
  for (const name of [...outputs, ...nodes.flatMap((node) => node.inputs)])
    readers.set(name, (readers.get(name) ?? 0) + 1);
  const isFree = (name: string) => readers.get(name) === 1;
  for (const [at, sum] of nodes.entries()) {
    if (sum.operator !== 'Add') continue;
    const [result] = sum.outputs;
    for (const [index, name] of sum.inputs.entries()) {
      const product = nodes.find((node) => node.outputs[0] === name);
      if (product?.operator !== 'Gemm' || product.inputs.length !== 2 || !isFree(name)) continue;
      const other = sum.inputs[1 - index]!;
      const [full, rest] = [shapes.get(name)!, shapes.get(other)];
      const fits = rest !== undefined && rest.length > 0 && rest.every((dim, i) => dim === full.at(i - rest.length));
      if (!fits || shapes.get(result!)?.length !== full.length) continue;
      nodes[at] = { ...product, inputs: [...product.inputs, other], outputs: sum.outputs };
      nodes.splice(nodes.indexOf(product), 1, { ...product, operator: '', inputs: [], outputs: [] });
      break;
    }
  }
  const kept = nodes.filter((node) => node.operator !== '');
  nodes.splice(0, nodes.length, ...kept);
}
