import { briefly } from '@trainyard/protocol';
import {
  ALL_LINEAR_NAMES,
  type LinearName,
  modulePattern,
  type ModulePattern,
  parentModule,
  type PatternEntry,
  targetModule,
} from '@trainyard/trainer';

import { RequestError } from '../../seams/faults/request-error.ts';

/** `q_proj`, `self_attn.q_proj`, `layers.3.self_attn.q_proj`, also after `model.` or `^model.`, as PEFT writes them. */
const KEY = /^(?:(?:\^?model\.)?layers\.(0|[1-9]\d{0,5})\.(?=\w+\.))?(?:(self_attn|conv|mlp|feed_forward)\.)?(\w+)$/;

export interface PatternParts {
  readonly targets: readonly LinearName[];
  /** Linear layers that can have adapters, by block of the base model; null or absent: unknown. */
  readonly linearsByLayer?: readonly (readonly LinearName[])[] | null;
}

/**
 * Values by module, with the meaning of PEFT's `rank_pattern` and `alpha_pattern`. Regular expressions are refused:
 * matching them would cost time that the caller decides.
 * @param name of the member of `lora`
 * @returns paths before names, each in the order of a model's layers; null for none
 * @throws {RequestError} `request.invalid` for a key that selects no adapted module, or never applies
 */
export function readModulePattern(
  name: 'rank_pattern' | 'alpha_pattern',
  wire: Readonly<Record<string, number>> | null | undefined,
  { targets, linearsByLayer = null }: PatternParts,
): ModulePattern | null {
  const found: PatternEntry[] = [];
  for (const [key, value] of Object.entries(wire ?? {})) {
    const refuse = (reason: string): never => {
      const msg = `The key \`${briefly(key)}\` ${reason}`;
      throw RequestError.invalid([{ loc: ['body', 'lora', name, key.slice(0, 100)], msg, type: 'value_error' }]);
    };
    const [, index, parent, module] = KEY.exec(key) ?? [];
    const ofName = ALL_LINEAR_NAMES.filter((one) => targetModule(one) === module);
    const [linear, ...others] = ofName.filter((one) => parent === undefined || parent === parentModule(one));
    if (linear === undefined)
      return refuse('should be a layer such as `q_proj`, or a path such as `layers.3.self_attn.q_proj`');
    const adapted = [linear, ...others].filter((one) => targets.includes(one));
    if (adapted.length === 0) refuse(`selects no module: \`${module}\` is not in \`targets\``);
    const layer = index === undefined ? null : Number(index);
    if (layer === null && parent !== undefined && ofName.length > 1)
      refuse(`selects some of the modules of \`${module}\`: use \`${module}\`, or paths such as \`layers.3.${key}\``);
    if (linearsByLayer !== null && layer !== null) {
      const having = [...linearsByLayer.keys()].filter((at) =>
        adapted.some((one) => linearsByLayer[at]!.includes(one)),
      );
      if (layer >= linearsByLayer.length)
        refuse(`selects no module: the layers of this base model are 0 to ${linearsByLayer.length - 1}`);
      if (!having.includes(layer))
        refuse(
          `selects no module: layer ${layer} of this base model has no \`${parent}.${module}\`; layers that have it: ${briefly(having.join(', '))}`,
        );
    }
    const earlier = found.filter((entry) => targetModule(entry.linear) === module);
    if (earlier.some((entry) => entry.layer === layer)) refuse('selects the same modules as an earlier one');
    if (earlier.some((entry) => entry.layer === null))
      refuse(`never applies, since \`${targetModule(linear)}\` comes first: put paths before layers`);
    found.push({ layer, linear, value });
  }
  return found.length === 0 ? null : modulePattern(found);
}
