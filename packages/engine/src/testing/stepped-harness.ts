import type { EngineStats, StepReport } from '@trainyard/backend';
import type { ScriptedRunner } from './scripted-runner.ts';

interface SteppedEngine {
  readonly hasWork: boolean;
  step(): StepReport | Promise<StepReport>;
  stats(): EngineStats;
  checkIntegrity(): void;
}

/** Steps an engine over a scripted model, and checks its integrity after each step. */
export abstract class SteppedHarness {
  abstract readonly runner: ScriptedRunner;
  abstract readonly engine: SteppedEngine;

  run(maxSteps = 10_000): void {
    for (let i = 0; this.engine.hasWork; i++) {
      this.#refuseEndless(i, maxSteps);
      this.step();
    }
  }

  step(): void {
    if (this.engine.step() instanceof Promise) throw new Error('the runner answers later: use stepLater()');
    this.check();
  }

  async runLater(maxSteps = 10_000): Promise<void> {
    for (let i = 0; this.engine.hasWork; i++) {
      this.#refuseEndless(i, maxSteps);
      await this.stepLater();
    }
  }

  /** @param meanwhile called during the step */
  async stepLater(meanwhile: () => void = () => {}): Promise<void> {
    const report = this.engine.step();
    meanwhile();
    await report;
    this.check();
  }

  check(): void {
    this.engine.checkIntegrity();
    const { usedTokens } = this.engine.stats();
    if (usedTokens !== this.runner.numUsedCells)
      throw new Error(`ledger ${usedTokens}, runner ${this.runner.numUsedCells} cells`);
  }

  #refuseEndless(numSteps: number, maxSteps: number): void {
    if (numSteps === maxSteps)
      throw new Error(`not done after ${maxSteps} steps: ${JSON.stringify(this.engine.stats())}`);
  }
}
