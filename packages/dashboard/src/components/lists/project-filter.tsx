import { useSearchParams } from 'wouter';

import { allOr, FilterSelect } from './filter-select.tsx';

/** One project or all, in the address. @param projects in any order and with repeats; that of the address is offered too */
export function ProjectFilter({ projects }: { projects: readonly string[] }) {
  const [parameters] = useSearchParams();
  const names = new Set([...projects, parameters.get('project') ?? '']);
  names.delete('');
  return <FilterSelect name="project" label="Project" options={allOr([...names].toSorted())} />;
}
