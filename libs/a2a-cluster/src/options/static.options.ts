import type { AgentExecutor } from '@a2a-js/sdk/server';
import type { CanActivate, InjectionToken, ModuleMetadata, Provider, Type } from '@nestjs/common';
import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import { resolveTransports, type TransportPaths } from './transport.options.js';

/** A guard of the app's for the library's controllers: an instance, or a class that Nest makes. */
export type GuardInput = CanActivate | Type<CanActivate>;

/** Options that Nest fixes before asynchronous options arrive. In `forRootAsync` they stand beside `useFactory`. */
export interface A2AClusterStaticOptions {
  /**
   * The agent: an `AgentExecutor` of the SDK or a `TurnExecutor`. Give a class, which Nest makes with `imports` in
   * sight, or the token of a provider that one of the modules in `imports` exports. Required.
   */
  executor: Type<AgentExecutor> | InjectionToken;
  /** Modules whose exports the executor and the guards need. Default: none. */
  imports?: ModuleMetadata['imports'];
  /**
   * Providers that are appended last, and so replace those of the library: `{ provide: LeaseStore, useClass: … }`.
   * Default: none.
   */
  extraProviders?: Provider[];
  /** Whether the exports are visible in every module. Default: false. */
  isGlobal?: boolean;
  /** Name of the TypeORM DataSource. Default: the default one. */
  dataSource?: string;
  /** Which agent this replica serves, where several share the tables. It must not be empty. Default: `default`. */
  agentId?: string;
  /** Paths and body limit: see {@link TransportPaths}, which has the defaults. */
  transports?: Partial<TransportPaths>;
  /**
   * Guards of the library's controllers, instances or classes. They see HTTP only: beside them the option `grpc` needs
   * a `userBuilder`. Default: none.
   */
  guards?: GuardInput[];
}

/**
 * @internal The static options with every default in place: a type, and the token under which the module provides them.
 * Each instance of the module has an object of its own.
 */
export abstract class StaticOptions {
  abstract readonly executor: InjectionToken;
  abstract readonly agentId: string;
  /** Undefined: the default one. */
  abstract readonly dataSource: string | undefined;
  abstract readonly transports: TransportPaths;
  abstract readonly guards: readonly GuardInput[];
}

/** The static options with their defaults. Throws {@link ClusterOptionsError}. */
export function resolveStatic(given: A2AClusterStaticOptions): StaticOptions {
  const { executor, agentId, dataSource, transports, guards } = given;
  if (!executor) {
    throw ClusterOptionsError.rule('executor', executor, 'name the class of the agent executor, or its token');
  }
  if (agentId === '') throw ClusterOptionsError.rule('agentId', agentId, 'it must not be empty');
  return {
    executor,
    agentId: agentId ?? 'default',
    dataSource: dataSource === 'default' ? undefined : dataSource,
    transports: resolveTransports(transports),
    guards: guards ?? [],
  };
}
