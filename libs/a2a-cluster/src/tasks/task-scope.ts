import type { OwnerResolver, ServerCallContext } from '@a2a-js/sdk/server';

/** Whose task: everything the library stores is scoped by it. */
export interface TaskScope {
  tenant: string;
  owner: string;
  taskId: string;
}

/** Whose task a call means. */
export type ScopeResolver = (context: ServerCallContext, taskId: string) => TaskScope;

/** The scope of a call: its tenant, and the owner that the owner resolver makes of its user. */
export const scopeResolver =
  (ownerResolver: OwnerResolver): ScopeResolver =>
  (context, taskId) => ({ tenant: context.tenant ?? '', owner: ownerResolver(context), taskId });
