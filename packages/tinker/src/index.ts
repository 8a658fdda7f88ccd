export { TinkerTrainer, type LearnerParts, type TinkerTrainerOptions } from './driver/tinker-trainer.ts';
export { intakeFor, type AdapterIntake, type IntakeRequest } from './driver/adapter-intake.ts';
export { contactServer, isUntrusted, type ContactOptions, type ServerFacts } from './transport/server-facts.ts';
export { askMaxRank } from './transport/max-rank.ts';
export { SYSTEM_CLOCK, type Clock } from './transport/clock.ts';
export type { PeftFiles } from './driver/adapter-archive.ts';
export { TINKER_PROFILES, type TinkerProfileName } from './profiles/tinker-profiles.ts';
export type { GradientRecipe, TinkerProfile } from './profiles/tinker-profile.ts';
