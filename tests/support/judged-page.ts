import { setTimeout } from 'node:timers/promises';

import type { Locator, Page } from 'playwright-core';

import { axeViolations } from './axe-violations.ts';

/** Phone, small and large window, px. */
const WIDTHS = [390, 1024, 1440];
const LOOK_EVERY_MS = 100;
/** Half a minute. */
const MAX_LOOKS = 300;

interface WindowOptions {
  /** Elements that must be in the first screen. Default: none. */
  readonly seen?: readonly Locator[];
  /** Window that the page is left in. Default: the widest. */
  readonly last?: 'wide' | 'narrow';
}

/** A page whose console, width and accessibility are checked while it is used. */
export class JudgedPage {
  readonly page: Page;
  readonly #origin: string;
  readonly #complaints: string[] = [];

  constructor(page: Page, origin: string) {
    this.page = page;
    this.#origin = origin;
    page.on('console', (message) => this.#complaints.push(`${message.type()}: ${message.text()}`));
    page.on('pageerror', ({ message }) => this.#complaints.push(message));
  }

  /** Opens an address, and waits for a text that a person looks for there. */
  async open(path: string, content: string | RegExp): Promise<void> {
    await this.page.goto(this.#origin + path);
    await this.page.getByText(content).filter({ visible: true }).first().waitFor();
  }

  /** Faults at each width, violations of axe at the last one, and lines of the console. */
  async faults(options: WindowOptions = {}): Promise<string[]> {
    return [...(await this.faultsInWindows(options)), ...(await this.violations()), ...this.complaints()];
  }

  /** Faults at each width: a page wider than the window, or an element that is not seen at once. */
  async faultsInWindows({ seen = [], last = 'wide' }: WindowOptions = {}): Promise<string[]> {
    const faults: string[] = [];
    for (const width of last === 'wide' ? WIDTHS : WIDTHS.toReversed())
      faults.push(...(await this.#faultsAt(width, seen)));
    return faults;
  }

  async #faultsAt(width: number, seen: readonly Locator[]): Promise<string[]> {
    await this.page.setViewportSize({ width, height: 844 });
    const where = `${this.page.url()} at ${width} px`;
    const faults: string[] = [];
    // Charts follow the width a moment later.
    // `waitForFunction` would evaluate text in the page, which its policy forbids.
    const isFit = () => this.page.evaluate<boolean>('document.documentElement.scrollWidth <= innerWidth');
    let numLooks = 0;
    while (!(await isFit()) && ++numLooks < MAX_LOOKS) await setTimeout(LOOK_EVERY_MS);
    if (numLooks === MAX_LOOKS) faults.push(`${where}: wider than the window`);
    for (const one of seen) {
      const box = await one.boundingBox();
      const isInside = box !== null && box.x >= 0 && box.y >= 0 && box.x + box.width <= width && box.y < 844;
      if (!isInside) faults.push(`${where}: an element is at ${JSON.stringify(box)}`);
    }
    return faults;
  }

  /** Violations of axe, with their elements. */
  async violations(): Promise<string[]> {
    return await axeViolations(this.page);
  }

  /** Lines of the console, and errors of scripts, since the last call. */
  complaints(): string[] {
    return this.#complaints.splice(0);
  }

  /** Values of a list of facts by their names, as objects for comparison. */
  async facts(): Promise<Readonly<Record<string, string>>> {
    const pairs = await this.page
      .locator('dl.facts > div')
      .evaluateAll((all) => all.map((one) => [one.children[0]!.textContent, one.children[1]!.textContent] as const));
    return Object.fromEntries(pairs.map(([name, value]) => [name ?? '', value ?? '']));
  }

  /** Texts of the cells of a table by row, without its head; of a long one the rows in view. */
  async rows(caption: string): Promise<string[][]> {
    const rows = this.page.getByRole('table', { name: caption, exact: true }).getByRole('row');
    await rows.nth(1).waitFor();
    return (
      await rows.evaluateAll((all) =>
        all.slice(1).map((row) => [...row.children].map((cell) => cell.textContent?.trim() ?? '')),
      )
    ).filter((cells) => cells.length > 0);
  }
}
