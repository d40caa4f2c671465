import type { FactoryProvider, InjectionToken, Provider } from '@nestjs/common';

/** Below this no statement is given up on: a busy machine is not a dead one. */
export const MIN_STATEMENT_TIMEOUT_MS = 2_000;

/** The task store with the leases about it: what the library itself uses. */
export const LEASED_TASKS = Symbol('A2A_CLUSTER_LEASED_TASKS');

/** The ledger of effects with the leases about it: what the library itself uses. */
export const LEASED_EFFECTS = Symbol('A2A_CLUSTER_LEASED_EFFECTS');

/** @internal Parses the bodies of our paths. */
export const BODY_PARSER = Symbol('A2A_CLUSTER_BODY_PARSER');

/** @internal What the gRPC server serves. */
export const GRPC_SERVICES = Symbol('A2A_CLUSTER_GRPC_SERVICES');

/** A factory provider whose parameters are what it injects, in the same order. */
export function provide(
  token: InjectionToken,
  useFactory: (...args: never[]) => unknown,
  inject: FactoryProvider['inject'],
): Provider {
  return { provide: token, useFactory: useFactory as FactoryProvider['useFactory'], inject: inject ?? [] };
}
