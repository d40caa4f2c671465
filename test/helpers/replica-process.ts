import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { builtTool } from '../../tools/harness/built-tool.js';
import { inheritedEnvironment, type ReplicaEnvironment, ReplicaProcess } from '../../tools/harness/replica-process.js';
import { onCleanUp } from './clean-up.js';

/** The built replica: what a run's global set-up has made of it, or the build itself. */
const PROGRAM = process.env.A2A_TEST_REPLICA ?? builtTool('replica/main.js');

/** Starts a replica, which may well refuse to start. One that is left running is killed when the test file is done. */
export function spawnReplica(name: string, env: ReplicaEnvironment): ReplicaProcess {
  if (!existsSync(PROGRAM)) throw new Error(`${PROGRAM} is missing: run npm run build`);
  const replica = ReplicaProcess.spawn(name, { program: PROGRAM, env: { ...inheritedEnvironment(), ...env } });
  const forget = onCleanUp(() => replica.kill());
  const unlist = listForSweep(replica.child.pid);
  replica.child.once('exit', () => {
    forget();
    unlist();
  });
  return replica;
}

/** Lists the process for sweep-run.sh, which kills it when this worker cannot any more. */
function listForSweep(pid: number | undefined): () => void {
  const runDir = process.env.A2A_TEST_RUN_DIR;
  if (!runDir || pid === undefined) return () => undefined;
  const listed = join(runDir, 'pids', String(pid));
  writeFileSync(listed, PROGRAM);
  return () => rmSync(listed, { force: true });
}
