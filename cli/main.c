/* The troupe command: prepares the process and runs the command. */
#include "commands/commands.h"
#include "ui/options.h"
#include "ui/ui.h"

#include "base/os/descriptor.h"

#include <signal.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    trp__descriptor_fill_streams();
    ui_init();
    /* Turns writes to a closed pipe and past the file size limit into errors, which the exit status
     * reports. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    int status = commands_run(argc, argv);
    ui_end();
    if (fflush(stdout) != 0 || ferror(stdout)) {
        ui_error("standard output could not be written");
        return status == EXIT_DONE ? EXIT_FAILED : status;
    }
    return status;
}
