/** Which part of a list to return. */
export interface PageQuery {
  /** Id of the last item already seen, exclusive; null or absent starts at the beginning. It may have been deleted since. */
  after?: string | null;
  /** Most items to return, 1..1000, default 20. */
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
