// The agent: what runs inside the sandbox of a transform of kind command (transform/program.h).
//
// It reads a tar from standard input, runs the command for each sample, and writes a tar to standard output;
// how that went is written to a descriptor of its own. No verb for people.
#pragma once

namespace millrace::cli {

// Whether the words are those by which a sandbox starts the agent.
bool is_agent(int argc, char** argv);
int run_agent(int argc, char** argv);

}  // namespace millrace::cli
