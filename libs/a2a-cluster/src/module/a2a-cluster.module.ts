import { type DynamicModule, Module } from '@nestjs/common';
import { type ASYNC_OPTIONS_TYPE, ConfigurableModuleClass, type OPTIONS_TYPE } from './module-definition.js';
import { ClusterOptionsError } from '../errors/cluster-options.error.js';

/**
 * Makes an A2A server safe to run as several replicas. Import it once per agent, beside `TypeOrmModule` (PostgreSQL)
 * and `ScheduleModule`.
 */
@Module({})
export class A2AClusterModule extends ConfigurableModuleClass {
  /** Throws {@link ClusterOptionsError} where a static option is wrong; all else is checked when the app boots. */
  static override forRoot(options: typeof OPTIONS_TYPE): DynamicModule {
    return super.forRoot(required(options));
  }

  /** The same with options that come from elsewhere: `useFactory`, `useClass` or `useExisting`. */
  static override forRootAsync(options: typeof ASYNC_OPTIONS_TYPE): DynamicModule {
    return super.forRootAsync(required(options));
  }
}

function required<T>(options: T | undefined): T {
  if (options) return options;
  throw ClusterOptionsError.rule('executor', undefined, 'name the class of the agent executor, or its token');
}
