/* The troupe command: prepares the process and runs the command. */
#include "commands/commands.h"
#include "ui/options.h"
#include "ui/ui.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* Opens something for each standard stream that is closed, so that its use still fails: else its
 * number goes to a file of results, and what is printed lands there. */
static void fill_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* the lowest */
    }
}

int main(int argc, char **argv)
{
    fill_streams();
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
