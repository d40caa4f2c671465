import { ConfigurableModuleBuilder } from '@nestjs/common';
import type { A2AClusterOptions } from '../options/cluster.options.js';
import type { A2AClusterStaticOptions } from '../options/static.options.js';
import { A2A_CLUSTER_OPTIONS, clusterModule } from './cluster.providers.js';

export const { ConfigurableModuleClass, OPTIONS_TYPE, ASYNC_OPTIONS_TYPE } =
  new ConfigurableModuleBuilder<A2AClusterOptions>({ optionsInjectionToken: A2A_CLUSTER_OPTIONS })
    .setClassMethodName('forRoot')
    .setFactoryMethodName('createA2AClusterOptions')
    .setExtras(
      // Every static option has to be named here: what is not named is taken for one of the injected options.
      {
        executor: undefined,
        imports: [],
        extraProviders: [],
        isGlobal: false,
        dataSource: undefined,
        agentId: 'default',
        transports: undefined,
        guards: [],
      } as unknown as A2AClusterStaticOptions,
      clusterModule,
    )
    .build();
