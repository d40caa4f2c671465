import { TestCluster } from '../../helpers/cluster.js';

/** Replicas A, B and C, that also serve gRPC and version 0.3: the same for all suites of the file that starts them. */
export let cluster: TestCluster;

export async function startCluster(): Promise<void> {
  cluster = await TestCluster.start({ A2A_GRPC_PORT: 0, A2A_COMPAT_V03: 'true' });
}
