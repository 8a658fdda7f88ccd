import { useSearchParams } from 'wouter';

/**
 * Parameters of the address as they are: the router decodes percent signs, which are part of a list's own
 * parameters.
 */
export function useAddress(): URLSearchParams {
  useSearchParams();
  return new URLSearchParams(location.search);
}
