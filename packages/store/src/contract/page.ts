export interface PageQuery {
  /**
   * Id of the last item already seen, exclusive; null or absent starts at the first. It may have been deleted
   * since.
   */
  after?: string | null;
  /** Maximum number of items, 1..1000, default 20. */
  limit?: number;
}

export interface OrderedPageQuery extends PageQuery {
  /** Default `'asc'`: oldest (or lowest step) first. */
  order?: 'asc' | 'desc';
}

/** `hasMore` is true exactly when a query after the last item would return at least one item now. */
export interface Page<Item> {
  items: Item[];
  hasMore: boolean;
}
