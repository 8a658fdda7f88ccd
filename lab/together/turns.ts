import { join } from 'node:path';

import { freePort } from '../free-port.mjs';
import { installVllm, VllmProcess } from '../vllm/vllm-process.mjs';
import { ensureSkyrl, type SkyrlServer, startSkyrl } from '../skyrl/skyrl-server.mjs';

/** The engine that may compute now: two at once compete for the cores. */
export type Turn = 'sampling' | 'training' | 'both';

export interface TurnsOptions {
  /** The repository. */
  readonly root: string;
  /** Base model in Hugging Face's form. */
  readonly modelFolder: string;
  /** Database, checkpoints and logs. */
  readonly workFolder: string;
  readonly maxRank: number;
  readonly log: (line: string) => void;
}

/**
 * A vLLM server that samples and a SkyRL server that trains; one is stopped while the other has its turn.
 * Both may be killed and come back.
 */
export class Turns {
  readonly vllm: VllmProcess;
  readonly #options: TurnsOptions;
  #skyrl: SkyrlServer;
  #turn: Turn = 'both';

  /** Installs missing parts and starts both, one after the other. */
  static async start(options: TurnsOptions): Promise<Turns> {
    const { root, modelFolder, workFolder, log } = options;
    await ensureSkyrl(root, log);
    const python = await installVllm(root, log);
    const vllm = new VllmProcess({
      python,
      modelFolder,
      port: await freePort(),
      logFile: join(workFolder, 'vllm.log'),
    });
    process.once('exit', () => vllm.kill());
    const skyrl = await startSkyrl(root, skyrlOptions(options));
    log('SkyRL answers');
    skyrl.pause();
    await vllm.start();
    log('vLLM answers');
    skyrl.resume();
    return new Turns(options, vllm, skyrl);
  }

  private constructor(options: TurnsOptions, vllm: VllmProcess, skyrl: SkyrlServer) {
    this.#options = options;
    this.vllm = vllm;
    this.#skyrl = skyrl;
  }

  get skyrlUrl(): string {
    return this.#skyrl.url;
  }

  take(turn: Turn): void {
    this.#turn = turn;
    if (turn === 'training') this.vllm.pause();
    else this.vllm.resume();
    if (turn === 'sampling') this.#skyrl.pause();
    else this.#skyrl.resume();
  }

  /** Kills it at once, during any work, and starts a new one. */
  async killVllm(): Promise<void> {
    this.vllm.kill();
    await this.vllm.start();
    if (this.#turn === 'training') this.vllm.pause();
  }

  /** As {@link killVllm}; the next one uses its data on disk. */
  async killSkyrl(): Promise<void> {
    const { port } = this.#skyrl;
    await this.#skyrl.kill();
    this.#skyrl = await startSkyrl(this.#options.root, { ...skyrlOptions(this.#options), port });
    if (this.#turn === 'sampling') this.#skyrl.pause();
  }

  async close(): Promise<void> {
    this.vllm.kill();
    await this.#skyrl.stop();
  }
}

/** It may use all cores, because the sampler is stopped meanwhile. */
function skyrlOptions({ modelFolder, workFolder, maxRank }: TurnsOptions) {
  return { modelFolder, workFolder, maxRank, numThreads: 2 };
}
