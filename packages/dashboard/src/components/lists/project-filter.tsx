import { allOr, FilterSelect } from './filter-select.tsx';

/** One project or all, in the address. @param projects names, in any order and with repeats */
export function ProjectFilter({ projects }: { projects: readonly string[] }) {
  const names = [...new Set(projects)].toSorted();
  return <FilterSelect name="project" label="Project" options={allOr(names)} />;
}
