/** Who may read the metrics: anybody, keys of the scope `admin`, nobody. */
export type MetricsAccess = 'open' | 'key' | 'off';
