/** Whose task: everything the library stores is scoped by it. */
export interface TaskScope {
  tenant: string;
  owner: string;
  taskId: string;
}
