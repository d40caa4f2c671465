import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';
import { readConfig } from './config.js';
import { dataSourceOptions, migrate } from './database.js';
import { describeError } from './describe-error.js';

/** Starts one replica of the agent. Start as many as you like, on one database. */
async function main(): Promise<void> {
  const config = readConfig(process.env);
  const publicUrl = config.publicUrl ?? `http://${config.host}:${config.port}`;
  await migrate(dataSourceOptions(config.databaseUrl));

  const app = await NestFactory.create(AppModule.forRoot(config, publicUrl), { abortOnError: false });
  // On SIGTERM turns may end for a while, then they are ended or handed over: no task is left to a dead process.
  app.enableShutdownHooks(['SIGTERM', 'SIGINT'], { useProcessExit: true });
  await app.listen(config.port, config.host);
}

main().catch((error: unknown) => {
  process.stderr.write(`The agent cannot start: ${describeError(error)}\n`);
  process.exit(1);
});
