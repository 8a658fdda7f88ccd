import type { ListPage } from '@trainyard/protocol';

type ReadPage<Item extends { id: string }> = (after: string | undefined) => Promise<ListPage<Item>>;

/** A page of a list. `for await` yields its items and those of all further pages, each fetched on demand. */
export class Page<Item extends { id: string }> implements ListPage<Item>, AsyncIterable<Item> {
  readonly object = 'list';
  readonly data: Item[];
  readonly first_id: string | null;
  readonly last_id: string | null;
  readonly has_more: boolean;
  readonly #read: ReadPage<Item>;

  constructor(page: ListPage<Item>, read: ReadPage<Item>) {
    this.data = page.data;
    this.first_id = page.first_id;
    this.last_id = page.last_id;
    this.has_more = page.has_more;
    this.#read = read;
  }

  /** Returns null after the last page. */
  async nextPage(): Promise<Page<Item> | null> {
    if (!this.has_more || this.last_id === null) return null;
    return new Page(await this.#read(this.last_id), this.#read);
  }

  async *pages(): AsyncGenerator<Page<Item>, undefined> {
    let page: Page<Item> | null = this as Page<Item>;
    for (; page !== null; page = await page.nextPage()) yield page;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, undefined> {
    for await (const page of this.pages()) yield* page.data;
  }
}

/** A requested list: `await` gives its first page, `for await` every item of all pages. */
export class PagePromise<Item extends { id: string }> extends Promise<Page<Item>> implements AsyncIterable<Item> {
  /** Makes `then` return ordinary promises. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  /** @param after start of the first page */
  constructor(after: string | undefined, read: ReadPage<Item>) {
    super((resolve, reject) => {
      read(after).then((page) => resolve(new Page(page, read)), reject);
    });
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, undefined> {
    yield* await this;
  }

  async *pages(): AsyncGenerator<Page<Item>, undefined> {
    yield* (await this).pages();
  }

  /** Every item of all pages. @param most maximum number of items */
  async toArray(most = Infinity): Promise<Item[]> {
    const items: Item[] = [];
    for await (const item of this) {
      if (items.length >= most) break;
      items.push(item);
      if (items.length === most) break;
    }
    return items;
  }
}
