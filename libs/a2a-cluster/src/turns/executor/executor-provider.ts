import { Injectable, type InjectionToken, type NestInterceptor, type Type } from '@nestjs/common';
import { EXCEPTION_FILTERS_METADATA, GUARDS_METADATA, INTERCEPTORS_METADATA } from '@nestjs/common/internal';
import type { AgentExecutor } from '@a2a-js/sdk/server';
import { ApplicationConfig, type ContextId, ModuleRef, ModulesContainer, type NestContainer } from '@nestjs/core';
import { ExternalExceptionFilterContext } from '@nestjs/core/exceptions/external-exception-filter-context.js';
import {
  ExecutionContextHost,
  GuardsContextCreator,
  InstanceWrapper,
  InterceptorsContextCreator,
  type Module,
  STATIC_CONTEXT,
} from '@nestjs/core/internal';
import { ClusterOptionsError } from '../../errors/cluster-options.error.js';
import { ResolvedOptions } from '../../options/cluster.options.js';
import { StaticOptions } from '../../options/static.options.js';

/** The enhancers of one method of the executor. */
export interface EnhancerSet {
  guards: ReturnType<GuardsContextCreator['create']>;
  interceptors: NestInterceptor[];
  /** Gives an error to the users' filters: resolves with what they made of it, or rejects. */
  filter: (error: unknown, args: unknown[]) => Promise<unknown>;
}

/** The methods of an executor that run as handlers. */
export type ExecutorMethod = 'execute' | 'cancelTask';

/** One executor instance and what Nest has around it, for one turn. */
export interface Invocation {
  executor: AgentExecutor;
  enhancersOf: (method: ExecutorMethod) => EnhancerSet;
}

/** The context type of the executor's handlers, as `ExecutionContext.getType()` gives it. */
export const A2A_CONTEXT_TYPE = 'a2a';

/** The method as Nest's enhancers take it: by it they find what it was decorated with. */
export const handlerOf = (executor: AgentExecutor, method: ExecutorMethod): ((...args: unknown[]) => unknown) =>
  executor[method] as (...args: unknown[]) => unknown;

const METHODS: ExecutorMethod[] = ['execute', 'cancelTask'];

/**
 * Finds the executor among the app's providers, with its guards, interceptors and filters. By default the app's global
 * ones stay out of it: they are made for HTTP requests, and a turn is none.
 */
@Injectable()
export class ExecutorProvider {
  private readonly wrapper: InstanceWrapper<AgentExecutor>;
  private readonly moduleKey: string;
  private readonly creators: {
    guards: GuardsContextCreator;
    interceptors: InterceptorsContextCreator;
    filters: ExternalExceptionFilterContext;
  };
  private staticInvocation: Invocation | undefined;

  /** The module instance of this library that the executor belongs to. */
  private readonly home: Module;
  private readonly token: InjectionToken;

  constructor(
    private readonly modules: ModulesContainer,
    parts: StaticOptions,
    { globalEnhancers }: ResolvedOptions,
    globalConfig: ApplicationConfig,
  ) {
    this.token = parts.executor;
    // Several instances of the library's module in one app are told apart by what each was made with.
    this.home = [...modules.values()].find((module) => module.providers.get(StaticOptions)?.instance === parts)!;
    const container = { getModules: () => modules } as NestContainer;
    const config = globalEnhancers ? globalConfig : new ApplicationConfig();
    this.creators = {
      guards: new GuardsContextCreator(container, config),
      interceptors: new InterceptorsContextCreator(container, config),
      filters: new ExternalExceptionFilterContext(container, config),
    };
    [this.moduleKey, this.wrapper] = this.locate();
  }

  /** Fails the boot where the executor is none, or carries an enhancer that Nest did not make. */
  verify(): void {
    const { metatype, instance } = this.wrapper as { metatype: { prototype?: object } | null; instance?: object };
    const isStatic = this.wrapper.isDependencyTreeStatic() && !this.wrapper.isTransient;
    // The result of a request-scoped factory is seen only when it is made.
    if (!isStatic && this.wrapper.isNotMetatype) return;
    const subject = (isStatic ? instance : metatype?.prototype) as Partial<AgentExecutor> | undefined;
    for (const method of METHODS) {
      if (typeof subject?.[method] !== 'function') {
        throw ClusterOptionsError.rule(
          'executor',
          this.token,
          `it has to provide an AgentExecutor, and has no ${method}()`,
        );
      }
    }
    const classRef = isStatic ? subject!.constructor : (metatype as unknown as object);
    const injectables = this.modules.get(this.moduleKey)?.injectables;
    for (const key of [GUARDS_METADATA, INTERCEPTORS_METADATA, EXCEPTION_FILTERS_METADATA]) {
      const declared = [classRef, ...METHODS.map((method) => subject![method] as object)].flatMap(
        (target) => (Reflect.getMetadata(key, target) as unknown[] | undefined) ?? [],
      );
      const missing = declared.find((enhancer) => typeof enhancer === 'function' && !injectables?.has(enhancer));
      if (missing) {
        throw ClusterOptionsError.rule(
          'executor',
          this.token,
          `Nest has not made its ${(missing as { name: string }).name}, which would silently be skipped: ` +
            'provide the executor as a class (useClass), not by useFactory or useValue',
        );
      }
    }
  }

  /** The executor for one turn. */
  async resolve(contextId: ContextId, request: unknown): Promise<Invocation> {
    if (this.wrapper.isDependencyTreeStatic() && !this.wrapper.isTransient) {
      this.staticInvocation ??= this.invocation(this.wrapper.instance, STATIC_CONTEXT);
      return this.staticInvocation;
    }
    const moduleRef = this.wrapper.host?.providers.get(ModuleRef)?.instance as ModuleRef;
    moduleRef.registerRequestByContextId(request, contextId);
    const executor = await moduleRef.resolve<AgentExecutor>(this.wrapper.token as Type<AgentExecutor>, contextId);
    return this.invocation(executor, contextId);
  }

  private invocation(executor: AgentExecutor, contextId: ContextId): Invocation {
    const made = new Map(METHODS.map((method) => [method, this.enhancers(executor, method, contextId)]));
    return { executor, enhancersOf: (method) => made.get(method)! };
  }

  private enhancers(executor: AgentExecutor, method: ExecutorMethod, contextId: ContextId): EnhancerSet {
    const { guards, interceptors, filters } = this.creators;
    const args = [executor, handlerOf(executor, method), this.moduleKey, contextId, this.wrapper.id] as const;
    const handler = filters.create(...(args as unknown as Parameters<typeof filters.create>));
    return {
      guards: guards.create(...args),
      interceptors: interceptors.create(...args),
      // eslint-disable-next-line @typescript-eslint/require-await -- a filter may throw or return synchronously
      filter: async (error, callArgs) => {
        const host = new ExecutionContextHost(callArgs);
        host.setType(A2A_CONTEXT_TYPE);
        const outcome: unknown = handler.invokeCustomFilters(error, host);
        if (outcome === undefined) throw error;
        return outcome;
      },
    };
  }

  /** The module that really has the executor: ours, or the nearest of those that it imports. */
  private locate(): [string, InstanceWrapper<AgentExecutor>] {
    const keys = new Map([...this.modules].map(([key, module]) => [module, key]));
    const near = new Set([this.home]);
    for (const module of near) {
      const found = realProvider(module, this.token);
      if (found) return [keys.get(module)!, found];
      for (const imported of module.imports) near.add(imported);
    }
    throw ClusterOptionsError.rule(
      'executor',
      this.token,
      'no module provides it: name a class, or a token that one of the modules in imports exports',
    );
  }
}

/** The provider behind a token, beyond aliases (useExisting) of the same module. */
function realProvider(module: Module, token: InjectionToken): InstanceWrapper<AgentExecutor> | undefined {
  const wrapper = module.providers.get(token) as InstanceWrapper<AgentExecutor> | undefined;
  if (!wrapper?.isAlias) return wrapper;
  const [target] = (wrapper.inject ?? []) as InjectionToken[];
  return target === undefined ? undefined : realProvider(module, target);
}
