import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { migrate } from '../../apps/sample/src/database.js';
import { describeError } from '../../apps/sample/src/describe-error.js';
import { writeErrorLine, writeLine } from '../harness/output.js';
import { reservePort } from '../harness/port.js';
import { readReplicaConfig } from './config.js';
import { replicaDataSource } from './database.js';
import { ReplicaModule } from './replica.module.js';
import { StderrLogger } from './stderr.logger.js';

/** Starts one replica of the scripted agent, or of the conformance agent, and says where it serves. */
async function main(): Promise<void> {
  const config = readReplicaConfig(process.env);
  const port = await reservePort(config.host, config.port);
  const publicUrl = config.publicUrl ?? `http://${config.host}:${port}`;
  await migrate(replicaDataSource(config.databaseUrl));

  // Until the app serves, Nest would log an error with its stack and throw it as well; one line is enough.
  const app = await NestFactory.create(ReplicaModule.forRoot(config, publicUrl), {
    abortOnError: false,
    logger: false,
  });
  app.enableShutdownHooks(['SIGTERM', 'SIGINT'], { useProcessExit: true });
  await app.listen(port, config.host);
  app.useLogger(new StderrLogger());
  writeLine(`replica ${config.replica} serves ${publicUrl}`);
}

main().catch((error: unknown) => {
  writeErrorLine(`replica ${process.env.REPLICA ?? 'A'} cannot start: ${describeError(error)}`);
  process.exit(1);
});
