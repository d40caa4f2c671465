import { SLOW_MS } from '../helpers/cluster.js';
import { cluster, startCluster } from './three-replicas/cluster.js';
import { frozenReplicas } from './three-replicas/frozen.suite.js';
import { grpcReplicas } from './three-replicas/grpc.suite.js';
import { shutdowns } from './three-replicas/shutdown.suite.js';

/** What needs no more than three replicas with the usual times: their boots would cost more than the tests themselves. */
describe('Three replicas', () => {
  beforeAll(startCluster, SLOW_MS);

  afterAll(() => cluster.stop());

  frozenReplicas();
  shutdowns();
  // Kills C.
  grpcReplicas();
});
