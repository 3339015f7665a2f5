#include <unistd.h>
void this_thread_sleep_for(int ms){usleep(ms*1000);} 
int custom_atomic_load_int(volatile int*o){return *o;} 
void custom_atomic_store_int(volatile int*o,int d){*o=d;}
int wait_key_cv(int d){return 0;} 
int wait_until_press_key_cv(){return 0;}
