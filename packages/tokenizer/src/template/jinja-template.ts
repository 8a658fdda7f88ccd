import { JinjaInstance, type JinjaResult } from './jinja-instance.ts';

interface Compiled {
  readonly instance: JinjaInstance;
  readonly handle: number;
}

const unused = new FinalizationRegistry<{ compiled: Compiled }>(({ compiled: { instance, handle } }) => {
  if (instance.isCurrent) instance.free(handle);
});

/** A compiled template; recompiled after its instance was replaced. */
export class JinjaTemplate {
  readonly #source: string;
  /** Shared with the registry, which must not hold the template itself. */
  readonly #place: { compiled: Compiled };

  /** @throws {Error} with the reason if the source is not a template */
  constructor(source: string) {
    this.#source = source;
    this.#place = { compiled: this.#compile() };
    unused.register(this, this.#place);
  }

  /**
   * @param variables JSON text
   * @param now local time of `strftime_now`
   * @param fuel maximum steps of the rendering
   * @throws {Error} if it needs too much memory or nests too deep
   */
  render(variables: string, now: Date, fuel: number): JinjaResult {
    if (!this.#place.compiled.instance.isCurrent) this.#place.compiled = this.#compile();
    const { instance, handle } = this.#place.compiled;
    return instance.render(handle, variables, now, fuel);
  }

  #compile(): Compiled {
    const instance = JinjaInstance.current();
    return { instance, handle: instance.compile(this.#source) };
  }
}
