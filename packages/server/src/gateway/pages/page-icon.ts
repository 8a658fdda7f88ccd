/** An inline picture, because browsers request /favicon.ico for pages without one. */
export const PAGE_ICON = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#3358d4"/><path d="M3.5 11.5 7 7.5l2.2 2 3.3-5" fill="none" stroke="#fff" stroke-width="1.8"/></svg>',
)}`;
