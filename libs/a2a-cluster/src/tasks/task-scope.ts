import type { OwnerResolver, ServerCallContext } from '@a2a-js/sdk/server';

/** The owner of a task. Everything that the library stores is scoped by it. */
export interface TaskScope {
  tenant: string;
  owner: string;
  taskId: string;
}

/** Finds the scope of the task that a call is about. */
export type ScopeResolver = (context: ServerCallContext, taskId: string) => TaskScope;

/** The scope of a call: its tenant, and the owner that the owner resolver makes of its user. */
export const scopeResolver =
  (ownerResolver: OwnerResolver): ScopeResolver =>
  (context, taskId) => ({ tenant: context.tenant ?? '', owner: ownerResolver(context), taskId });
