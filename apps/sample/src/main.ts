import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';
import { readConfig } from './config.js';
import { migrate } from './database.js';
import { describeError, writeErrorLine, writeLine } from './output.js';
import { reservePort } from './port.js';
import { StderrLogger } from './stderr.logger.js';

/** Starts one replica and says where it serves. */
async function main(): Promise<void> {
  const config = readConfig(process.env);
  const port = await reservePort(config.host, config.port);
  const publicUrl = config.publicUrl ?? `http://${config.host}:${port}`;
  await migrate(config.databaseUrl);

  // Until the app serves, Nest would log an error with its stack and throw it as well; one line is enough.
  const app = await NestFactory.create(AppModule.forRoot(config, publicUrl), { abortOnError: false, logger: false });
  app.enableShutdownHooks(['SIGTERM', 'SIGINT'], { useProcessExit: true });
  await app.listen(port, config.host);
  app.useLogger(new StderrLogger());
  writeLine(`replica ${config.replica} serves ${publicUrl}`);
}

main().catch((error: unknown) => {
  writeErrorLine(`replica ${process.env.REPLICA ?? 'A'} cannot start: ${describeError(error)}`);
  process.exit(1);
});
